/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults and page tables: speculative faults, from the lookup of the VMA to
 * the PTE, against sections of mmap_lock that unmap, protect, move, retract,
 * collapse and register.
 *
 * One address, one VMA in the memory of one vm_area_struct, one PTE table with
 * its lock.  The claims are about the moment at which a fault sets the PTE:
 *
 *   - the table is neither freed nor moved away, nor was the lock that was
 *     taken that of a freed table;
 *   - the VMA that was copied is the one whose PTEs the next munmap() will zap:
 *     neither one that was zapped, nor an older one at the same place;
 *   - its protection is that of the last walk of the PTEs;
 *   - no userfaultfd and no MMU notifier that it missed has been registered.
 *
 * And nobody waits for ever.
 *
 * What a writer stores between two waits is one step, see memory.pml.  Guards
 * are removed by the macros NO_..., IRQS_ON and SPIN_LOCK; CLAIM=claim looks
 * for one violation among several; REACH=condition says that no fault of which
 * that is true completes, which is to be false.
 */
#ifndef READERS
#define READERS	1
#endif
#define CPUS	(2 + READERS)
#define WRITER	0
#define OTHER	1	/* of another mm */

#define LOCS	8
#define STORES	12
#define TREE	0	/* the slot of the tree: does it point to the VMA? */
#define GEN	1	/* vma->vm_mark.gen */
#define LIFE	2	/* vma->vm_mark.life */
#define PLACE	3	/* vma->vm_mm, vm_start, anon_vma: which VMA it is */
#define FLAGS	4	/* vma->vm_flags, vm_page_prot, vm_userfaultfd_ctx */
#define SECT	5	/* mm->vma_write_gen */
#define PMD	6	/* the pmd of the address */
#define NOTI	7	/* mm->notifier_subscriptions */
/* What is reached by the pointer. */
#define VMA	(ONLY(GEN) | ONLY(LIFE) | ONLY(PLACE) | ONLY(FLAGS))

#define ipi_taken(cpu)	skip

#include "memory.pml"
#include "locks.pml"
#include "marks.pml"

/* PLACE: 0, the number of a VMA, or this, in another mm */
#define ELSEWHERE	15
/* FLAGS: a protection and this */
#define UFFD		8
/* PMD: 0 and */
#define THE_TABLE	1
#define HUGE		2

#ifndef SECTIONS
#define SECTIONS 2
#endif

byte	pte;			/* 0, or the protection; under the PTE lock */
int	slab_view;

/* What the claims are stated in; no reader looks at it. */
mtype = { LINKED, MOVED, FREED };
mtype	table = LINKED;
bit	in_tree = 1;
bit	vma_free, elsewhere;	/* the memory holds none, or another mm's */
byte	lives;
byte	ids = 1;		/* of VMAs of this mm */
byte	mapped = 1;		/* whose PTEs there may be */
byte	prot = 1;		/* of the VMA */
byte	walked = 1;		/* what the PTEs' protection has to be */
bit	uffd, notifier;		/* registered, for all that a fault may do */

/* Of which one is set when a claim is found to be false. */
bit	lock_of_freed_table, pte_in_freed_table, pte_in_moved_table;
bit	pte_after_zap, pte_of_older_vma, pte_with_old_protection;
bit	fault_missed_uffd, fault_missed_notifier, page_replaced;
#ifdef REACH
bit	reached;
#endif

/* WRITERS */

/* A TLB is flushed now, or later. */
inline maybe_flush_tlb()
{
	if
	:: ipi(WRITER)
	:: true
	fi
}

/* pte_table_drain(): in one step, for who fails to get the lock falls back */
inline pte_table_drain()
{
	atomic {
		spin_lock_ptl(WRITER);
		spin_unlock_ptl(WRITER)
	}
}

/* What waits for faults that are between spf_find_pte() and spf_lock_pte() */
inline tlb_remove_table_sync_one()
{
#ifdef NO_IPI
	skip
#else
	ipi(WRITER)
#endif
}

/* vm_area_free(), vm_area_end_life() */
inline vm_area_free(cpu)
{
	atomic {
		vma_mark_detached(cpu);
#ifndef NO_LIFE
		lives++;
		WRITE_ONCE(cpu, LIFE, lives);
#endif
		vma_free = 1;
		slab_view = heard[cpu]
	}
}

/* zap_pte_range() */
inline zap_pte_range()
{
	atomic {
		spin_lock_ptl(WRITER);
		pte = 0;
		mapped = 0
	}
	/* force_flush: the lock's holder waits for other CPUs. */
	maybe_flush_tlb();
	spin_unlock_ptl(WRITER)
}

/* free_pgtables(), if no other VMA has a part in the table; tlb_finish_mmu() */
inline free_pgtables()
{
	WRITE_ONCE(WRITER, PMD, 0);
	tlb_remove_table_sync_one();
	table = FREED
}

/* do_mas_align_munmap(), with and without a downgrade of mmap_lock */
inline munmap()
{
	atomic {
#if defined(NO_DETACH)
		vma_write_mark(WRITER, section);
#elif !defined(NO_MARK_MUNMAP)
		vma_mark_detached(WRITER);
#endif
		smp_store_release(WRITER, TREE, 0);
		in_tree = 0;
		if
		:: mm_end_vma_marks(WRITER); downgraded = 1
		:: true
		fi
	}
	if
	:: table == LINKED ->
		zap_pte_range();
		if
		:: free_pgtables()
		:: true
		fi
	:: else ->
		mapped = 0
	fi;
	atomic {
		vm_area_free(WRITER);
		if
		:: downgraded -> downgraded = 0
		:: !downgraded -> mm_end_vma_marks(WRITER)
		/* The memory is used again before the section ends. */
		:: !downgraded -> mmap_elsewhere(); mm_end_vma_marks(WRITER)
		fi
	}
}

/* vm_area_alloc() and what mmap_region() stores */
inline vm_area_alloc(cpu, place)
{
	d_step { hand_over(cpu, slab_view) }
	vma_mark_detached(cpu);
	vma_free = 0;
	WRITE_ONCE(cpu, PLACE, 0);
	WRITE_ONCE(cpu, PLACE, place);
	WRITE_ONCE(cpu, FLAGS, prot)
}

/* mmap() at the same address; a classic fault may then make a table. */
inline mmap()
{
	atomic {
		ids++;
		prot++;
		vm_area_alloc(WRITER, ids);
		vma_write_mark(WRITER, section);
		walked = prot;
		mapped = ids;
		in_tree = 1;
		uffd = 0;
		smp_store_release(WRITER, TREE, 1);
		mm_end_vma_marks(WRITER);
		if
		:: table == FREED ->
			/* pmd_install(): of all memory the same. */
			table = LINKED;
			smp_store_release(WRITER, PMD, THE_TABLE)
		:: true
		fi
	}
}

/* mmap() by another process, the numbers of whose sections may be any */
inline mmap_elsewhere()
{
	atomic {
		migrate(OTHER);
		vm_area_alloc(OTHER, ELSEWHERE);
		if
		:: vma_write_mark(OTHER, 1)
		:: vma_write_mark(OTHER, 2)
		:: vma_write_mark(OTHER, 3)
		fi;
		elsewhere = 1
	}
}

inline munmap_elsewhere()
{
	atomic {
		migrate(OTHER);
		vm_area_free(OTHER);
		elsewhere = 0
	}
}

/* mprotect_fixup(), change_pte_range() */
inline mprotect()
{
	atomic {
#ifndef NO_MARK_MPROTECT
		vma_write_mark(WRITER, section);
#endif
		prot++;
		WRITE_ONCE(WRITER, FLAGS, prot)
	}
	if
	:: table == LINKED ->
		atomic {
			spin_lock_ptl(WRITER);
			walked = prot;
			if
			:: pte != 0 -> pte = prot
			:: else
			fi
		}
		spin_unlock_ptl(WRITER);
		maybe_flush_tlb()
	:: else ->
		walked = prot
	fi;
	mm_end_vma_marks(WRITER)
}

/* move_normal_pmd(); the VMA stays, with MREMAP_DONTUNMAP */
inline mremap()
{
#ifndef NO_MARK_MOVE
	vma_write_mark(WRITER, section);
#endif
#ifndef NO_DRAIN_MOVE
	pte_table_drain();
#endif
	atomic {
		WRITE_ONCE(WRITER, PMD, 0);
		table = MOVED;
		pte = 0
	}
	maybe_flush_tlb();
	mm_end_vma_marks(WRITER)
}

/* collapse_and_free_pmd(): no page of the table is anonymous */
inline retract()
{
#ifndef NO_MARK_RETRACT
	vma_write_mark(WRITER, section);
#endif
#ifndef NO_DRAIN_RETRACT
	pte_table_drain();
#endif
	WRITE_ONCE(WRITER, PMD, 0);
	maybe_flush_tlb();
	tlb_remove_table_sync_one();
	atomic {
		table = FREED;
		pte = 0
	}
	mm_end_vma_marks(WRITER)
}

/*
 * collapse_huge_page(): the table is deposited, and freed without another wait
 * when the huge page goes, or put back.
 */
inline collapse()
{
#ifndef NO_MARK_COLLAPSE
	vma_write_mark(WRITER, section);
#endif
	WRITE_ONCE(WRITER, PMD, 0);
	maybe_flush_tlb();
	tlb_remove_table_sync_one();
	/* __collapse_huge_page_isolate() */
	atomic {
		spin_lock_ptl(WRITER);
		if
		:: table = MOVED; pte = 0
		:: true
		fi
	}
	spin_unlock_ptl(WRITER);
	atomic {
		if
		:: table == MOVED ->
			table = FREED;
			WRITE_ONCE(WRITER, PMD, HUGE)
		:: else ->
			WRITE_ONCE(WRITER, PMD, THE_TABLE)
		fi;
		mm_end_vma_marks(WRITER)
	}
}

/* userfaultfd_register() */
inline uffd_register()
{
	atomic {
#ifndef NO_MARK_UFFD
		vma_write_mark(WRITER, section);
#endif
		WRITE_ONCE(WRITER, FLAGS, prot + UFFD)
	}
#ifndef NO_GP_UFFD
	synchronize_rcu(WRITER);
#endif
	atomic {
		uffd = 1;
		mm_end_vma_marks(WRITER)
	}
}

/* __mmu_notifier_register(): mm_take_all_locks(), and then the pointer */
inline mmu_notifier_register()
{
#ifndef NO_MARK_NOTIFIER
	vma_write_mark(WRITER, section);
#endif
#ifndef NO_GP_NOTIFIER
	synchronize_rcu(WRITER);
#endif
	atomic {
		WRITE_ONCE(WRITER, NOTI, 1);
		notifier = 1;
		mm_end_vma_marks(WRITER)
	}
}

proctype writer()
{
	byte n = 0, peer = 0;
	bit downgraded = 0;

	do
	:: n < SECTIONS ->
		n++;
		migrate(WRITER);
		if
		:: in_tree -> munmap()
		:: vma_free -> mmap()
		:: vma_free -> mmap_elsewhere()
		:: elsewhere -> munmap_elsewhere()
		:: in_tree && !uffd -> mprotect()
		:: in_tree && table == LINKED -> mremap()
		:: in_tree && table == LINKED -> retract()
		:: in_tree && table == LINKED -> collapse()
		:: in_tree && !uffd -> uffd_register()
		:: !notifier -> mmu_notifier_register()
		fi
	:: break
	od
}

/* READERS */

/*
 * spf_lock_pte(): valid if the lock was got, and is of any use.  The lock of a
 * freed table is memory of somebody else.
 */
inline spf_lock_pte()
{
	atomic {
		lock_of_freed_table = table == FREED;
		assert(!lock_of_freed_table);
#ifdef SPIN_LOCK
		spin_lock_ptl(me);
		valid = 1
#else
		spin_trylock_ptl(me, valid)
#endif
	};
	if
	:: valid ->
#ifndef NO_PMD_CHECK
		atomic {
			READ_ONCE(me, PMD, pmd2);
			valid = pmd2 == THE_TABLE;
			pmd2 = 0
		};
#endif
#ifndef NO_PTL_CHECK
		if
		:: valid -> vma_unchanged(me)
		:: else
		fi;
#endif
		if
		:: !valid -> spin_unlock_ptl(me)
		:: else
		fi
	:: else
	fi
}

/* spf_relock_pte() */
inline spf_relock_pte()
{
	irqs_off[me] = 1;
#ifndef NO_RELOCK_CHECK
	vma_unchanged(me);
	if
	:: valid -> spf_lock_pte()
	:: else
	fi;
#else
	spf_lock_pte();
#endif
	irqs_off[me] = 0
}

#define ZERO_PAGE	1	/* spf_zero_page(): locks at once */
#define ANON_PAGE	2	/* spf_anon_page(): allocates first */
#define COPY_PAGE	3	/* spf_wp_page(), spf_copy_page(): twice */

/* handle_speculative_fault() */
proctype fault(byte me)
{
	MARK_VARIABLES;
	byte found, id, flags, pmd, pmd2, noti, orig, kind;

	/* vma_lookup() */
	atomic {
		in_rcu[me] = 1;
		rcu_dereference(me, TREE, found, VMA);
		if
		:: !found -> goto out
		:: else
		fi
	}

	vma_sample(me);

	/* spf_check_vma(), and the copy: each field once, see vma.pml */
	atomic {
		READ_ONCE(me, PLACE, id);
		if
		:: id == 0 || id == ELSEWHERE -> goto out
		:: else
		fi
	}
	atomic {
		READ_ONCE(me, FLAGS, flags);
		if
		:: flags & UFFD -> goto out
		:: else
		fi
	}
	atomic {
		vma_unchanged(me);
		if
		:: !valid -> goto out
		:: else
		fi
	}

	/* spf_do_fault(), spf_find_pte() */
	atomic {
#ifndef IRQS_ON
		irqs_off[me] = 1;
#endif
		READ_ONCE(me, PMD, pmd);
		if
		:: pmd != THE_TABLE ->
			irqs_off[me] = 0;
			goto out
		:: else ->
			pmd = 0
		fi
	}
	if
	:: kind = ANON_PAGE; irqs_off[me] = 0
	:: kind = ZERO_PAGE
	:: kind = COPY_PAGE
	fi;

	if
	:: kind != ANON_PAGE ->
		spf_lock_pte();
		irqs_off[me] = 0;
		if
		:: !valid -> goto out
		:: else
		fi
	:: else
	fi;
	if
	:: kind == COPY_PAGE ->
		/* mm_has_notifiers() */
		orig = pte;
		READ_ONCE(me, NOTI, noti);
		spin_unlock_ptl(me);
		if
		:: noti -> goto out
		:: else
		fi
	:: else
	fi;
	if
	:: kind != ZERO_PAGE ->
		spf_relock_pte();
		if
		:: !valid -> goto out
		:: else
		fi
	:: else
	fi;

	/* set_pte_at(), unless another thread took the same fault */
	atomic {
#ifndef NO_PTE_SAME
		if
		:: pte != orig -> goto unlock
		:: else
		fi;
#endif
#ifdef REACH
		reached = REACH;
		assert(!reached);
#endif
		d_step {
			pte_in_freed_table = table == FREED;
			pte_in_moved_table = table == MOVED;
			pte_after_zap = mapped == 0;
			pte_of_older_vma = mapped != 0 && mapped != id;
			pte_with_old_protection = mapped == id &&
						  walked != flags;
			fault_missed_uffd = uffd;
			fault_missed_notifier = kind == COPY_PAGE && notifier;
			page_replaced = pte != orig
		};
#ifdef CLAIM
		assert(!CLAIM);
#else
		assert(!pte_in_freed_table);
		assert(!pte_in_moved_table);
		assert(!pte_after_zap);
		assert(!pte_of_older_vma);
		assert(!pte_with_old_protection);
		assert(!fault_missed_uffd);
		assert(!fault_missed_notifier);
		assert(!page_replaced);
#endif
		pte = flags
	}
unlock:
	spin_unlock_ptl(me);
out:
	/* rcu_read_unlock() */
	atomic {
		in_rcu[me] = 0;
		finished[me] = 1;
		forget(me)
	}
}

init {
	/* Section 1 stored the VMA in the tree. */
	atomic {
		value[NTH(TREE, 0)] = 1;
		value[NTH(GEN, 0)] = 1;
		value[NTH(PLACE, 0)] = 1;
		value[NTH(FLAGS, 0)] = 1;
		value[NTH(SECT, 0)] = 2;
		value[NTH(PMD, 0)] = THE_TABLE;
		finished[OTHER] = 1;
		run writer();
		run fault(2)
#if READERS == 2
		;
		run fault(3)
#endif
	}
}
