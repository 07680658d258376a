/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the child of a fork() sees of a thread of the parent: its stores up to
 * some moment, and none after that.
 *
 * The thread writes a node into a fresh page, which takes a fault, and then
 * the link to it into a page that it may write by its TLB.  fork() passes the
 * PTEs of both, one after the other.  The claim: a child that sees the link
 * sees the node.
 *
 * Guards are removed by NO_MARK_FORK, EARLY_END and FILL_ALWAYS; REACH says
 * that no child sees both, which is to be false.
 */
#define CPUS	2
#define FORKER	0
#define THREAD	1

#define LOCS	3
#define STORES	4
#define GEN	0	/* vma->vm_mark.gen */
#define LIFE	1	/* vma->vm_mark.life: this VMA stays */
#define SECT	2	/* mm->vma_write_gen */

bit	tlb[CPUS];	/* has an entry of the page of the link, writable */
#define ipi_taken(cpu)	tlb[cpu] = 0

#include "memory.pml"
#include "locks.pml"
#include "marks.pml"

/* The PTEs; the PTE lock protects them. */
bit	node_present, link_writable = 1;

bit	child_has_node;		/* its page, by the PTE that was copied */
bit	link_shared;		/* the page of the link is the child's too */
bit	child_has_link;
bit	link_without_node;
#ifdef REACH
bit	reached;
#endif

inline copy_pte_of_node()
{
	atomic {
		spin_lock_ptl(FORKER);
		child_has_node = node_present
	}
	spin_unlock_ptl(FORKER)
}

inline copy_pte_of_link()
{
	atomic {
		spin_lock_ptl(FORKER);
		link_writable = 0;
		link_shared = 1
	}
	spin_unlock_ptl(FORKER)
}

/* dup_mmap() */
proctype forker()
{
	byte peer = 0;

#ifndef NO_MARK_FORK
	vma_write_mark(FORKER, section);
#endif
	/* copy_pte_range(); between two batches it drops the lock */
	if
	:: copy_pte_of_node(); copy_pte_of_link()
	:: copy_pte_of_link(); copy_pte_of_node()
	fi;
#ifdef EARLY_END
	mm_end_vma_marks(FORKER);
#endif
	tlb[FORKER] = 0;
	ipi(FORKER);
#ifndef EARLY_END
	mm_end_vma_marks(FORKER);
#endif
	finished[FORKER] = 1
}

proctype thread()
{
	MARK_VARIABLES;

	/* The node: handle_speculative_fault(), spf_anon_page() */
#ifndef FILL_ALWAYS
	vma_sample(THREAD);
	vma_unchanged(THREAD);
	if
	:: !valid -> goto out
	:: else
	fi;
#endif
	irqs_off[THREAD] = 1;
	spin_trylock_ptl(THREAD, valid);
	if
	:: valid ->
#ifndef FILL_ALWAYS
		vma_unchanged(THREAD);
#endif
		if
		:: valid -> node_present = 1
		:: else
		fi;
		spin_unlock_ptl(THREAD)
	:: else
	fi;
	irqs_off[THREAD] = 0;
out:
	if
	:: !node_present ->
		/* The classic path waits for mmap_lock. */
		finished[FORKER];
		node_present = 1
	:: else
	fi;

	/*
	 * The link.  The first page is the child's too, once it is shared, and
	 * its contents then those that the child sees.  Without a TLB entry or
	 * a PTE that does, the write takes a fault, which copies the page.
	 */
	atomic {
		if
		:: tlb[THREAD] || link_writable -> child_has_link = 1
		:: else
		fi
	}
	finished[THREAD] = 1
}

init {
	atomic {
		value[NTH(GEN, 0)] = 1;
		value[NTH(SECT, 0)] = 2;
		tlb[THREAD] = 1;
		run forker();
		run thread()
	}
	atomic {
		finished[FORKER] && finished[THREAD];
#ifdef REACH
		reached = child_has_link && child_has_node;
		assert(!reached);
#endif
		link_without_node = link_shared && child_has_link &&
				    !child_has_node;
		assert(!link_without_node)
	}
}
