/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The PTE lock, interrupts and grace periods.
 *
 * Before: CPUS, memory.pml, and ipi_taken(cpu), what an interrupt does on the
 * CPU that takes it.
 */
byte	ptl;			/* 0, or 1 + the CPU that holds it */
int	ptl_view;		/* what that sees who takes it */
bit	irqs_off[CPUS], in_rcu[CPUS];
bit	done[CPUS];		/* has nothing to do, and has stored nothing */

inline take_ptl(cpu)
{
	ptl = cpu + 1;
	hand_over(cpu, ptl_view)
}

/* spin_lock(), interrupts on or off */
inline spin_lock_ptl(cpu)
{
	atomic {
		ptl == 0;
		d_step { take_ptl(cpu) }
	}
}

/* spin_trylock() */
inline spin_trylock_ptl(cpu, got)
{
	atomic {
		if
		:: ptl == 0 ->
			d_step { take_ptl(cpu) };
			got = 1
		:: else ->
			got = 0
		fi
	}
}

inline spin_unlock_ptl(cpu)
{
	d_step {
		assert(ptl == cpu + 1);
		ptl_view = heard[cpu];
		ptl = 0
	}
}

/* The next CPU that cpu has to wait for */
inline next_peer(cpu)
{
	do
	:: peer < CPUS && (peer == cpu || done[peer]) -> peer++
	:: else -> break
	od
}

/* Both see what the other one saw. */
inline exchange(cpu)
{
	d_step {
		hand_over(peer, heard[cpu]);
		hand_over(cpu, heard[peer])
	}
}

/*
 * An interrupt on each other CPU, one after the other, and the wait for it:
 * the flush of a TLB, or tlb_remove_table_sync_one().  The caller has byte
 * peer = 0.
 */
inline ipi(cpu)
{
	do
	:: atomic {
		next_peer(cpu);
		if
		:: peer == CPUS -> peer = 0; break
		:: peer < CPUS && !irqs_off[peer] ->
			exchange(cpu);
			ipi_taken(peer);
			peer++
		fi
	   }
	od
}

/*
 * What a grace period promises: of each CPU a moment outside a read-side
 * section.  A section that begins later sees what preceded the grace period.
 */
inline synchronize_rcu(cpu)
{
	do
	:: atomic {
		next_peer(cpu);
		if
		:: peer == CPUS -> peer = 0; break
		:: peer < CPUS && !in_rcu[peer] ->
			exchange(cpu);
			peer++
		fi
	   }
	od
}
