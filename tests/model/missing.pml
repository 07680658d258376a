/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults below a missing PTE table: speculative faults that put one into the
 * empty entry of a PMD table, against one section of mmap_lock that unmaps,
 * or protects, what is mapped there.
 *
 * The claims:
 *
 *   - a PMD table is freed without a PTE table in it, and no lock of a freed
 *     table is taken;
 *   - no fault that sampled the VMA before the section sets a PTE once the
 *     section has passed by it.
 *
 * A fault may find a table that another one installed after the writer had passed
 * by, and then has to see the mark.  That other one may know of the section; or be on
 * another VMA below the same entry, which is not marked: with SHARED there is one,
 * and no table goes away.  It may be a fault of the classic path, which takes
 * the lock of the PMD table alone, once mmap_lock has been let go.
 *
 * Guards are removed by the macros NO_..., IRQS_ON; REACH=condition says that
 * no fault of which that is true completes, which is to be false.
 */
#ifndef READERS
#define READERS	2
#endif
#define WRITER	0
#ifdef SHARED
#define CPUS	(2 + READERS)
#define NEIGHBOUR (1 + READERS)
#else
#define CPUS	(1 + READERS)
#endif

#define LOCS	6
#define STORES	5
#define GEN	0	/* vma->vm_mark.gen */
#define LIFE	1	/* vma->vm_mark.life: this VMA stays */
#define SECT	2	/* mm->vma_write_gen */
#define PMD	3	/* the entry: is there a PTE table? */
#define PUD	4	/* likewise, a PMD table? */
#define HELD	5	/* page_table_lock, for who looks at it without taking it */

/*
 * The lock of the PMD table is not in it: it keeps two from filling one entry, and
 * here that is one table, whoever stores it.
 */
#define LOCKS	2
#define MM_PTL	1	/* page_table_lock */

#define ipi_taken(cpu)	skip

#include "memory.pml"
#include "locks.pml"
#include "marks.pml"

/* What the claims are stated in; no reader looks at it. */
bit	passed;			/* the writer is done with the PTEs */
bit	pte_freed, pmd_freed;	/* tables */

bit	table_lost, lock_of_freed_table, pte_behind_writer;
#ifdef REACH
bit	reached;
#endif

inline mm_tables_drain()
{
#ifdef NO_DRAIN
	skip
#else
#ifndef NO_MB_DRAIN
	smp_mb(WRITER);
#endif
	READ_ONCE(WRITER, HELD, held);	/* spin_is_locked() */
	if
	:: held ->
		/* In one step, for who fails to get the lock falls back. */
		atomic {
			spin_lock(WRITER, MM_PTL);
			spin_unlock(WRITER, MM_PTL)
		}
	:: else ->
#ifdef NO_ACQUIRE
		skip
#else
		smp_rmb(WRITER)		/* smp_acquire__after_ctrl_dep() */
#endif
	fi
#endif
}

/* zap_pmd_range(), change_pmd_range() */
inline pass_by()
{
	READ_ONCE(WRITER, PMD, pmd);
	if
	:: pmd ->
		spin_lock_ptl(WRITER);
		passed = 1;
		spin_unlock_ptl(WRITER)
	:: else ->
		passed = 1
	fi
}

/* free_pgtables() */
inline free_tables()
{
	READ_ONCE(WRITER, PMD, pmd);
	if
	:: pmd ->
		WRITE_ONCE(WRITER, PMD, 0)
	:: else
	fi;
	WRITE_ONCE(WRITER, PUD, 0);
	ipi(WRITER);	/* the flush of the TLBs, before tables are freed */
	atomic {
		pte_freed = 1;
		pmd_freed = 1;
		table_lost = value[NTH(PMD, last[PMD])];
		assert(!table_lost)
	}
}

inline mark_munmap()
{
#ifdef NO_MARK
	skip
#else
	vma_mark_detached(WRITER)
#endif
}

inline mark_mprotect()
{
#ifdef NO_MARK
	skip
#else
	vma_write_mark(WRITER, section)
#endif
}

proctype writer()
{
	byte pmd, held, peer = 0;

	if
	:: mark_munmap();
#ifndef LATE_DRAIN
	   mm_tables_drain();
#endif
	   mm_end_vma_marks(WRITER);	/* mmap_write_downgrade() */
#ifdef LATE_DRAIN
	   mm_tables_drain();
#endif
	   pass_by();
#ifndef SHARED
	   free_tables()
#endif
	:: mark_mprotect();
	   mm_tables_drain();
	   pass_by();
	   mm_end_vma_marks(WRITER)
	fi;
	atomic {
		finished[WRITER] = 1;
		forget(WRITER)
	}
}

inline lock_mm(cpu)
{
	atomic {
		spin_trylock(cpu, MM_PTL, valid);
		if
		:: !valid -> goto out
		:: else -> WRITE_ONCE(cpu, HELD, 1)
		fi
	}
#ifndef NO_MB_INSTALL
	smp_mb(cpu)	/* smp_mb__after_spinlock() */
#else
	skip
#endif
}

inline unlock_mm(cpu)
{
	atomic {
		smp_store_release(cpu, HELD, 0);
		spin_unlock(cpu, MM_PTL)
	}
}

/* spf_install_table() */
inline spf_install_table(cpu)
{
	lock_mm(cpu);
	atomic {
		lock_of_freed_table = pmd_freed;
		assert(!lock_of_freed_table)
	}
	READ_ONCE(cpu, PMD, pmd);
#ifndef NO_INSTALL_CHECK
	vma_unchanged(cpu);
#endif
	if
	:: valid && !pmd ->
		WRITE_ONCE(cpu, PMD, 1);
		pmd = 1;
		installed = 1
	:: else
	fi;
	atomic {
		table_lost = pmd_freed && installed;
		assert(!table_lost)
	}
	unlock_mm(cpu);
	if
	:: !pmd -> goto out
	:: else
	fi
}

proctype fault(byte cpu)
{
	MARK_VARIABLES;
	bit installed;
	byte pmd;

	vma_sample(cpu);
#ifndef IRQS_ON
	irqs_off[cpu] = 1;
#endif
	READ_ONCE(cpu, PUD, pmd);
	if
	:: !pmd -> goto out
	:: else
	fi;
	READ_ONCE(cpu, PMD, pmd);
	if
	:: !pmd -> spf_install_table(cpu)
	:: else
	fi;

	/* spf_lock_pte() */
	spin_trylock_ptl(cpu, valid);
	if
	:: !valid -> goto out
	:: else
	fi;
	atomic {
		lock_of_freed_table = pte_freed;
		assert(!lock_of_freed_table)
	}
#ifndef NO_PTL_CHECK
	vma_unchanged(cpu);
#endif
	if
	:: valid ->
		atomic {
#ifdef REACH
			reached = REACH;
			assert(!reached);
#endif
			/* Or else it found the VMA as it is after the section. */
			pte_behind_writer = passed && gen == 1;
			assert(!pte_behind_writer)
		}
	:: else
	fi;
	spin_unlock_ptl(cpu);
out:
	irqs_off[cpu] = 0;
	atomic {
		finished[cpu] = 1;
		forget(cpu)
	}
}

#ifdef SHARED
proctype neighbour()
{
	byte pmd, sect;
	bit valid;

	if
	:: lock_mm(NEIGHBOUR);
	   READ_ONCE(NEIGHBOUR, PMD, pmd);
	   if
	   :: !pmd -> WRITE_ONCE(NEIGHBOUR, PMD, 1)
	   :: else
	   fi;
	   unlock_mm(NEIGHBOUR)
	:: /* mmap_read_lock() */
	   smp_load_acquire(NEIGHBOUR, SECT, sect);
	   READ_ONCE(NEIGHBOUR, PMD, pmd);
	   if
	   :: sect == 3 && !pmd ->
		smp_wmb(NEIGHBOUR);	/* pmd_install() */
		WRITE_ONCE(NEIGHBOUR, PMD, 1)
	   :: else
	   fi
	fi;
out:
	atomic {
		finished[NEIGHBOUR] = 1;
		forget(NEIGHBOUR)
	}
}
#endif

init {
	byte i;

	atomic {
		value[NTH(GEN, 0)] = 1;
		value[NTH(SECT, 0)] = 2;
		value[NTH(PUD, 0)] = 1;
		if
		:: value[NTH(PMD, 0)] = 1	/* for the writer to take away */
		:: true
		fi;
		run writer();
#ifdef SHARED
		run neighbour();
#endif
		i = 1;
		do
		:: i <= READERS -> run fault(i); i++
		:: else -> break
		od
	}
}
