/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stores that a fork could lose: fork() write-protects the PTE of a page, and
 * flushes the TLBs at its end, while one thread of the parent writes to the
 * page by its TLB and another one takes a write fault.
 *
 * The claim: a page that a fault puts in the place of another one has all that
 * the threads of the parent stored to that, and nobody stores to that one
 * later.  Otherwise the store is the child's, and the parent has lost it.
 *
 * Guards are removed by NO_MARK_FORK, LATE_MARK_FORK, EARLY_END,
 * NO_END_RELEASE; REACH says that no page is ever copied, which is to be
 * false.
 */
#define CPUS	3
#define FORKER	0
#define FAULT	1
#define THREAD	2

#define LOCS	4
#define STORES	8
#define GEN	0	/* vma->vm_mark.gen */
#define LIFE	1	/* vma->vm_mark.life: this VMA stays */
#define SECT	2	/* mm->vma_write_gen */
#define DATA	3	/* in the page that there was first: how many stores */

bit	tlb[CPUS];	/* has an entry of that page, writable */
#define ipi_taken(cpu)	tlb[cpu] = 0

#include "memory.pml"
#include "locks.pml"
#include "marks.pml"

#ifndef STORES_OF_THREAD
#define STORES_OF_THREAD 2
#endif

/* The PTE, and PageAnonExclusive() of its page; the PTE lock protects them. */
mtype = { FIRST_PAGE, NO_PAGE, COPY };
mtype	page = FIRST_PAGE;
bit	writable, exclusive;

byte	stored;			/* to the first page, by the parent */
bit	store_lost;
#ifdef REACH
bit	reached;
#endif

/* flush_tlb_mm(), ptep_clear_flush() */
inline flush_tlb(cpu)
{
	tlb[cpu] = 0;
	ipi(cpu)
}

/* dup_mmap() */
proctype forker()
{
	byte peer = 0;

#if !defined(NO_MARK_FORK) && !defined(LATE_MARK_FORK)
	vma_write_mark(FORKER, section);
#endif
	/* copy_pte_range(), copy_present_pte() */
	atomic {
		spin_lock_ptl(FORKER);
		if
		:: page == FIRST_PAGE -> writable = 0; exclusive = 0
		:: else
		fi
	}
	spin_unlock_ptl(FORKER);
#ifdef LATE_MARK_FORK
	vma_write_mark(FORKER, section);
#endif
#ifdef EARLY_END
	mm_end_vma_marks(FORKER);
#endif
	flush_tlb(FORKER);
#ifndef EARLY_END
	mm_end_vma_marks(FORKER);
#endif
	atomic {
		finished[FORKER] = 1;
		forget(FORKER)
	}
}

/*
 * A thread that writes.  Where it has no entry for the page its CPU looks at
 * the PTE; where that does not do the thread takes a fault, and is of no
 * interest.
 */
proctype thread()
{
	byte n = 0;

	do
	:: atomic {
		if
		:: n < STORES_OF_THREAD && tlb[THREAD] ->
			n++;
			stored++;
			WRITE_ONCE(THREAD, DATA, stored);
			store_lost = page == COPY;
			assert(!store_lost)
		:: n < STORES_OF_THREAD && !tlb[THREAD] &&
		   page == FIRST_PAGE && writable ->
			tlb[THREAD] = 1
		:: break
		fi
	   }
	od
}

/* spf_lock_pte() */
inline spf_lock_pte()
{
	spin_trylock_ptl(FAULT, valid);
	if
	:: valid ->
#ifndef NO_PTL_CHECK
		vma_unchanged(FAULT);
#endif
		if
		:: !valid -> spin_unlock_ptl(FAULT)
		:: else
		fi
	:: else
	fi
}

/* handle_speculative_fault() of a write, spf_wp_page(), spf_copy_page() */
proctype fault()
{
	MARK_VARIABLES;
	byte data, peer = 0;

	vma_sample(FAULT);
	atomic {
		vma_unchanged(FAULT);
		if
		:: !valid -> goto out
		:: else
		fi
	}

	irqs_off[FAULT] = 1;
	spf_lock_pte();
	irqs_off[FAULT] = 0;
	if
	:: !valid -> goto out
	:: else
	fi;
	atomic {
		if
		:: writable -> goto unlock
		:: !writable && exclusive ->
			/* wp_page_reuse() */
			writable = 1;
			goto unlock
		:: else
		fi
	}
	spin_unlock_ptl(FAULT);

	/* copy_mc_user_highpage() */
	READ_ONCE(FAULT, DATA, data);

	/* spf_relock_pte() */
	irqs_off[FAULT] = 1;
#ifndef NO_RELOCK_CHECK
	vma_unchanged(FAULT);
	if
	:: valid -> spf_lock_pte()
	:: else
	fi;
#else
	spf_lock_pte();
#endif
	irqs_off[FAULT] = 0;
	if
	:: !valid -> goto out
	:: else
	fi;
	/* pte_same() holds: nobody else changes the PTE from what it was. */
	assert(page == FIRST_PAGE && !writable);

	page = NO_PAGE;
	flush_tlb(FAULT);
	atomic {
#ifdef REACH
		reached = 1;
		assert(!reached);
#endif
		page = COPY;
		writable = 1;
		exclusive = 1;
		store_lost = data != stored;
		assert(!store_lost)
	}
unlock:
	spin_unlock_ptl(FAULT);
out:
	atomic {
		finished[FAULT] = 1;
		forget(FAULT)
	}
}

init {
	atomic {
		value[NTH(GEN, 0)] = 1;
		value[NTH(SECT, 0)] = 2;
		if
		/* Written before; not yet; and of an earlier fork. */
		:: writable = 1; exclusive = 1; tlb[THREAD] = 1
		:: exclusive = 1
		:: true
		fi;
		run forker();
		run thread();
		run fault()
	}
}
