/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks and lives: a reader that copies a VMA without mmap_lock, against
 * writers that change it, unmap it, and reuse its memory.
 *
 * One piece of memory of the type vm_area_struct is in the tree of an mm, A,
 * is free, or is in that of another one, B.  The reader faults in A.  The
 * claim:
 *
 *   a copy that validates is the VMA as it was in the tree of A when the
 *   section began whose number the reader loaded in vma_sample().
 *
 * That is both "not torn" and "not stale", and says that the memory held no
 * other VMA.  What follows for PTEs is in table.pml.
 *
 * Every section of a writer is one step, as its stores may be loaded in any
 * order and as late as you like.  Guards are removed by the macros NO_...,
 * MM_FOR_LIFE and COPY_MARK; CLAIM=claim looks for one violation among
 * several; REACH=version says that no copy of that version validates, which is
 * to be false.
 */
#define CPUS	3
#define WRITER	0	/* of A */
#define OTHER	1	/* of B */
#define READER	2

#define LOCS	7
#define STORES	13
#define TREE	0	/* the slot of A's tree: does it point to the memory? */
#define GEN	1	/* vma->vm_mark.gen */
#define LIFE	2	/* vma->vm_mark.life */
#define MM	3	/* vma->vm_mm */
#define RANGE	4	/* vma->vm_start and so on: the version */
#define PROT	5	/* vma->vm_flags and so on: the version */
#define SECT	6	/* A's mm->vma_write_gen */
/* What is reached by the pointer. */
#define VMA	(ONLY(GEN) | ONLY(LIFE) | ONLY(MM) | ONLY(RANGE) | ONLY(PROT))

#include "memory.pml"
#include "marks.pml"

#define A	1
#define B	2
#define LEAVING	3
#define NO_VMA	0
#define ORIG	15	/* the version of another VMA of A */

#ifndef SECTIONS
#define SECTIONS 4
#endif

int	slab_view;

/* What the claim is stated in; no reader looks at it. */
byte	in = A;			/* whose VMA the memory holds */
byte	version = 1;		/* of the VMA, all fields of it */
byte	lives;			/* of the memory */
byte	at[9];			/* the version when A's section began */
byte	life_of[16];		/* of a version */

/* Of which one is set when the claim is found to be false. */
bit	torn_copy;		/* fields of several versions */
bit	left_vma;		/* the memory held no VMA of A then, */
bit	recycled_vma;		/* or another one, */
bit	stale_copy;		/* or a newer version, */
bit	unfinished_change;	/* or an older one */
#ifdef REACH
bit	reached;
#endif

/* WRITERS */

/* mmap_write_unlock() or mmap_write_downgrade(), of A */
inline end_section()
{
	atomic {
		if
		:: in == A -> at[section + 1] = version
		:: else -> at[section + 1] = NO_VMA
		fi;
		mm_end_vma_marks(WRITER)
	}
}

/* vm_area_free(), vm_area_end_life() */
inline vm_area_free(cpu)
{
#ifndef NO_END_DETACH
	vma_mark_detached(cpu);
#endif
	lives++;
#ifndef NO_LIFE
	WRITE_ONCE(cpu, LIFE, lives);
#endif
	in = NO_VMA;
	slab_view = heard[cpu]
}

/* kmem_cache_alloc(): sees what was done to the memory before it was freed. */
inline vm_area_of_slab(cpu)
{
	d_step { hand_over(cpu, slab_view) }
#ifndef NO_INIT_MARK
	vma_mark_detached(cpu)
#endif
}

/* vm_area_alloc(), vma_zero(): a VMA from nothing */
inline vm_area_alloc(cpu, mm)
{
	vm_area_of_slab(cpu);
	WRITE_ONCE(cpu, RANGE, NO_VMA);
	WRITE_ONCE(cpu, PROT, NO_VMA);
	WRITE_ONCE(cpu, MM, mm);
	set_fields(cpu)
}

/* vm_area_dup(), vm_area_copy(): the copy of another VMA, to be changed */
inline vm_area_dup(cpu)
{
	vm_area_of_slab(cpu);
	WRITE_ONCE(cpu, RANGE, ORIG);
	WRITE_ONCE(cpu, MM, A);
#ifdef COPY_MARK
	/* The whole structure was copied. */
	WRITE_ONCE(cpu, GEN, 1);
	WRITE_ONCE(cpu, LIFE, 0);
#endif
	WRITE_ONCE(cpu, PROT, ORIG);
	set_fields(cpu)
}

inline set_fields(cpu)
{
	version++;
	life_of[version] = lives;
	WRITE_ONCE(cpu, RANGE, version);
	WRITE_ONCE(cpu, PROT, version)
}

/* mprotect(), a split, a merge and so on: a VMA that stays in the tree */
inline change()
{
#ifndef NO_MARK
	vma_write_mark(WRITER, section);
#endif
	set_fields(WRITER);
	end_section()
}

/*
 * do_mas_align_munmap(), with and without a downgrade of mmap_lock.  The
 * memory may be used again before the section ends.
 */
inline munmap()
{
#ifdef NO_DETACH
	vma_write_mark(WRITER, section);
#else
	vma_mark_detached(WRITER);
#endif
	smp_store_release(WRITER, TREE, 0);
	in = LEAVING;
	if
	:: end_section();
	   vm_area_free(WRITER)
	:: vm_area_free(WRITER);
	   if
	   :: n < SECTIONS -> n++; mmap_elsewhere()
	   :: true
	   fi;
	   end_section()
	fi
}

/* munmap_undetach(): it stays after all. */
inline fail_to_munmap()
{
	vma_mark_detached(WRITER);
	vma_write_mark(WRITER, section);
	end_section()
}

/* mmap_region(), or the new VMA of a split */
inline mmap()
{
	if
	:: vm_area_alloc(WRITER, A)
	:: vm_area_dup(WRITER)
	fi;
	vma_write_mark(WRITER, section);
	smp_store_release(WRITER, TREE, 1);
	in = A;
	end_section()
}

/* The same by another process: the numbers of its sections may be any. */
inline mmap_elsewhere()
{
	migrate(OTHER);
	vm_area_alloc(OTHER, B);
	if
	:: vma_write_mark(OTHER, 1)
	:: vma_write_mark(OTHER, 2)
	:: vma_write_mark(OTHER, 3)
	fi;
	in = B
}

/* munmap() or, without a mark, exit_mmap() */
inline munmap_elsewhere()
{
	migrate(OTHER);
	if
	:: vma_mark_detached(OTHER)
	:: true
	fi;
	vm_area_free(OTHER)
}

proctype writer()
{
	byte n = 0;

	do
	:: n < SECTIONS ->
		atomic {
			n++;
			migrate(WRITER);
			if
			:: in == A -> change()
			:: in == A -> munmap()
			:: in == A -> fail_to_munmap()
			:: in == NO_VMA -> mmap()
			:: in == NO_VMA -> mmap_elsewhere()
			:: in == B -> munmap_elsewhere()
			fi
		}
	:: break
	od
}

/* READER */

/* handle_speculative_fault(), to the end of spf_copied_fault()'s copying */
proctype reader()
{
	MARK_VARIABLES;
	byte found, mm, range, prot;

	/* vma_lookup() */
	atomic {
		rcu_dereference(READER, TREE, found, VMA);
		if
		:: !found -> goto out
		:: else
		fi
	}

	vma_sample(READER);

	/* spf_check_vma(); what it reads of the rest is read again below */
	atomic {
		READ_ONCE(READER, MM, mm);
		if
		:: mm != A -> goto out
		:: else
		fi
	}

	/* spf_copied_fault() */
	READ_ONCE(READER, RANGE, range);
	READ_ONCE(READER, PROT, prot);
	atomic {
		vma_unchanged(READER);
		if
		:: !valid -> goto out
		:: else
		fi;
#ifdef REACH
		reached = range == REACH && prot == REACH;
		assert(!reached);
#endif
		d_step {
			torn_copy = range != prot;
			left_vma = !torn_copy && at[sect] == NO_VMA;
			recycled_vma = !torn_copy && !left_vma &&
				       life_of[range] != life_of[at[sect]];
			stale_copy = !torn_copy && !left_vma &&
				     !recycled_vma && range < at[sect];
			unfinished_change = !torn_copy && !left_vma &&
					    !recycled_vma && range > at[sect]
		};
#ifdef CLAIM
		assert(!CLAIM)
#else
		assert(!torn_copy);
		assert(!left_vma);
		assert(!recycled_vma);
		assert(!stale_copy);
		assert(!unfinished_change)
#endif
	}
out:
	atomic { forget(READER) }
}

init {
	/* Section 1 of A stored the VMA in the tree. */
	atomic {
		value[NTH(TREE, 0)] = 1;
		value[NTH(GEN, 0)] = 1;
		value[NTH(MM, 0)] = A;
		value[NTH(RANGE, 0)] = 1;
		value[NTH(PROT, 0)] = 1;
		value[NTH(SECT, 0)] = 2;
		at[2] = 1;
		life_of[NO_VMA] = 255;
		life_of[ORIG] = 255;
		run writer();
		run reader()
	}
}
