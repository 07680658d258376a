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
 * A fault may find a table that another one installed after the section, and
 * then has to see the mark: writer and installer took the same lock.
 *
 * Guards are removed by the macros NO_..., IRQS_ON; REACH=condition says that
 * no fault of which that is true completes, which is to be false.
 */
#ifndef READERS
#define READERS	2
#endif
#define CPUS	(1 + READERS)
#define WRITER	0

#define LOCS	5
#define STORES	5
#define GEN	0	/* vma->vm_mark.gen */
#define LIFE	1	/* vma->vm_mark.life: this VMA stays */
#define SECT	2	/* mm->vma_write_gen */
#define PMD	3	/* the entry: is there a PTE table? */
#define PUD	4	/* likewise, a PMD table? */

#define LOCKS	2
#ifndef NO_LOCK_ORDER
#define LOCKS_ORDER_STORES
#endif
#define PMDL	1	/* the lock of the PMD table */

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

/* pmd_table_drain(): in one step, for who fails to get the lock falls back */
inline pmd_table_drain()
{
#ifdef NO_DRAIN
	skip
#else
	atomic {
		spin_lock(WRITER, PMDL);
		spin_unlock(WRITER, PMDL)
	}
#endif
}

/* zap_pmd_range(), change_pmd_range() */
inline pass_by()
{
	pmd_table_drain();
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
	byte pmd, peer = 0;

	if
	:: mark_munmap();
	   mm_end_vma_marks(WRITER);	/* mmap_write_downgrade() */
	   pass_by();
	   free_tables()
	:: mark_mprotect();
	   pass_by();
	   mm_end_vma_marks(WRITER)
	fi;
	atomic {
		done[WRITER] = 1;
		forget(WRITER)
	}
}

/* spf_install_table() */
inline spf_install_table(cpu)
{
	spin_trylock(cpu, PMDL, valid);
	if
	:: !valid -> goto out
	:: else
	fi;
	atomic {
		lock_of_freed_table = pmd_freed;
		assert(!lock_of_freed_table)
	}
	READ_ONCE(cpu, PMD, pmd);
#ifndef NO_PMDL_CHECK
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
	spin_unlock(cpu, PMDL);
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
		done[cpu] = 1;
		forget(cpu)
	}
}

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
		i = 1;
		do
		:: i < CPUS -> run fault(i); i++
		:: else -> break
		od
	}
}
