/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Locks of page tables, interrupts and grace periods.
 *
 * Before: CPUS, memory.pml, and ipi_taken(cpu), what an interrupt does on the
 * CPU that takes it.  LOCKS, if there are more than the lock of a PTE table.
 */
#ifndef LOCKS
#define LOCKS	1
#endif
#define PTL	0

/* Who takes a lock sees what its last holder saw. */
byte	lock[LOCKS];		/* 0, or 1 + the CPU that holds it */
int	lock_view[LOCKS];	/* what that sees who takes it */
bit	irqs_off[CPUS], in_rcu[CPUS];
bit	finished[CPUS];		/* has nothing to do, and has stored nothing */

inline take_lock(cpu, which)
{
	lock[which] = cpu + 1;
	hand_over(cpu, lock_view[which])
}

/* Interrupts on or off */
inline spin_lock(cpu, which)
{
	atomic {
		lock[which] == 0;
		d_step { take_lock(cpu, which) }
	}
}

inline spin_trylock(cpu, which, got)
{
	atomic {
		if
		:: lock[which] == 0 ->
			d_step { take_lock(cpu, which) };
			got = 1
		:: else ->
			got = 0
		fi
	}
}

inline spin_unlock(cpu, which)
{
	d_step {
		assert(lock[which] == cpu + 1);
		lock_view[which] = heard[cpu];
		lock[which] = 0
	}
}

#define spin_lock_ptl(cpu)		spin_lock(cpu, PTL)
#define spin_trylock_ptl(cpu, got)	spin_trylock(cpu, PTL, got)
#define spin_unlock_ptl(cpu)		spin_unlock(cpu, PTL)

/* The next CPU that cpu has to wait for */
inline next_peer(cpu)
{
	do
	:: peer < CPUS && (peer == cpu || finished[peer]) -> peer++
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
