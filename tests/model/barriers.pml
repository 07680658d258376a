/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether memory.pml has the barriers right: well known litmus tests, of whose
 * names and outcomes tools/memory-model/litmus-tests has an account.
 *
 * As it is, all those whose outcome the barriers forbid, one of them in each run.
 * With a macro, one whose outcome must come about.
 */
#define CPUS	3
#define LOCS	2
#define STORES	3
#define X	0
#define Y	1
#define ipi_taken(cpu)	skip

#include "memory.pml"
#include "locks.pml"

mtype = { NONE, MP_WMB_RMB, MP_RELEASE_ACQUIRE, MP_LOCKS, MP_GRACE_PERIOD,
	  WRC_RELEASE_ACQUIRE, CORR, DRAIN };
mtype	test = NONE;
bit	r0, r1, r2;		/* as they are called there */
byte	ended;
bit	forbidden_outcome, weak_outcome;

proctype P0()
{
	byte peer = 0;

	if
	:: test == MP_WMB_RMB ->
		WRITE_ONCE(0, X, 1);
#ifndef MP_WITHOUT_WMB
		smp_wmb(0);
#endif
		WRITE_ONCE(0, Y, 1)
	:: test == MP_RELEASE_ACQUIRE ->
		WRITE_ONCE(0, X, 1);
		smp_store_release(0, Y, 1)
	:: test == MP_LOCKS ->
		spin_lock_ptl(0);
		WRITE_ONCE(0, X, 1);
		WRITE_ONCE(0, Y, 1);
		spin_unlock_ptl(0)
	:: test == MP_GRACE_PERIOD ->
		WRITE_ONCE(0, X, 1);
		synchronize_rcu(0);
		WRITE_ONCE(0, Y, 1)
	:: test == WRC_RELEASE_ACQUIRE || test == CORR ->
		WRITE_ONCE(0, X, 1)
	:: test == DRAIN ->
		/* pte_table_drain() between a mark and a look at the PTE */
		WRITE_ONCE(0, X, 1);
		spin_lock_ptl(0);
		spin_unlock_ptl(0);
		READ_ONCE(0, Y, r0)
#ifdef SB
	:: test == NONE ->
		WRITE_ONCE(0, X, 1);
		READ_ONCE(0, Y, r0)
#endif
	fi;
	ended++
}

proctype P1()
{
	in_rcu[1] = test == MP_GRACE_PERIOD;
	if
	:: test == MP_WMB_RMB ->
		READ_ONCE(1, Y, r0);
#ifndef MP_WITHOUT_RMB
		smp_rmb(1);
#endif
		READ_ONCE(1, X, r1)
	:: test == MP_RELEASE_ACQUIRE ->
		smp_load_acquire(1, Y, r0);
		READ_ONCE(1, X, r1)
	:: test == MP_LOCKS ->
		spin_lock_ptl(1);
		READ_ONCE(1, Y, r0);
		READ_ONCE(1, X, r1);
		spin_unlock_ptl(1)
	:: test == MP_GRACE_PERIOD ->
		READ_ONCE(1, Y, r0);
		READ_ONCE(1, X, r1);
		in_rcu[1] = 0
	:: test == WRC_RELEASE_ACQUIRE ->
		READ_ONCE(1, X, r0);
#ifdef WRC_WITH_WMB
		smp_wmb(1);
		WRITE_ONCE(1, Y, 1)
#else
		smp_store_release(1, Y, 1)
#endif
	:: test == CORR ->
		READ_ONCE(1, X, r0);
		READ_ONCE(1, X, r1)
	:: test == DRAIN ->
		spin_lock_ptl(1);
		READ_ONCE(1, X, r1);
		if
		:: !r1 -> WRITE_ONCE(1, Y, 1)
		:: else
		fi;
		spin_unlock_ptl(1)
#ifdef SB
	:: test == NONE ->
		WRITE_ONCE(1, Y, 1);
		READ_ONCE(1, X, r1)
#endif
	fi;
	ended++
}

proctype P2()
{
	if
	:: test == WRC_RELEASE_ACQUIRE ->
		smp_load_acquire(2, Y, r1);
		READ_ONCE(2, X, r2)
	:: else
	fi;
	ended++
}

init {
	atomic {
		if
#if defined(SB)
		:: test = NONE
#elif defined(MP_WITHOUT_WMB) || defined(MP_WITHOUT_RMB)
		:: test = MP_WMB_RMB
#elif defined(WRC_WITH_WMB)
		:: test = WRC_RELEASE_ACQUIRE
#else
		:: test = MP_WMB_RMB
		:: test = MP_RELEASE_ACQUIRE
		:: test = MP_LOCKS
		:: test = MP_GRACE_PERIOD
		:: test = WRC_RELEASE_ACQUIRE
		:: test = CORR
		:: test = DRAIN
#endif
		fi;
		run P0();
		run P1();
		run P2()
	}
	atomic {
		ended == 3;
		if
		:: test == NONE || test == DRAIN ->
			forbidden_outcome = !r0 && !r1
		:: test == WRC_RELEASE_ACQUIRE ->
			forbidden_outcome = r0 && r1 && !r2
		:: else ->
			forbidden_outcome = r0 && !r1
		fi;
#if defined(SB) || defined(MP_WITHOUT_WMB) || defined(MP_WITHOUT_RMB) || \
	defined(WRC_WITH_WMB)
		weak_outcome = forbidden_outcome;
		assert(!weak_outcome)
#else
		assert(!forbidden_outcome)
#endif
	}
}
