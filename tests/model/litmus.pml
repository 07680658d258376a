/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether memory.pml and locks.pml have the barriers right: the tests of
 * litmus/ and a few well known ones, named as in tools/memory-model.
 *
 * As it is, all those whose outcome the barriers forbid, one of them in each
 * run.  With a macro, one without a barrier, whose outcome must come about.
 */
#define CPUS	3
#define LOCS	5
#define STORES	6
#define GEN	0
#define FIELD	1
#define SECT	2	/* or the life, the notifier, or a lock that is looked at */
#define PTE	3
#define UNUSED	4
#define ipi_taken(cpu)	skip

#include "memory.pml"
#include "locks.pml"

mtype = { MARK_BEFORE_CHANGE, SECTION_END, LIFE_BEFORE_MARK,
	  DETACH_BEFORE_LIFE, THE_DRAIN, TABLES_DRAIN, THIRD_FAULT,
	  CLASSIC_FAULT, GRACE_PERIOD,
	  CORR, WRC_RELEASE_ACQUIRE, STORE_BUFFERING };
mtype	test = CORR;
byte	r0, r1, r2, r3;		/* of the last process */
byte	w0, w1;			/* of the others */
byte	ended;
bit	forbidden_outcome, weak_outcome;

proctype P0()
{
	byte peer = 0;

	if
	:: test == MARK_BEFORE_CHANGE || test == SECTION_END ->
		smp_store_release(0, GEN, 2);
#ifndef NO_WMB
		smp_wmb(0);
#endif
		WRITE_ONCE(0, FIELD, 1);
		if
		:: test == SECTION_END -> smp_store_release(0, SECT, 3)
		:: else
		fi
	:: test == LIFE_BEFORE_MARK ->
		WRITE_ONCE(0, GEN, 0);
		smp_wmb(0);
		WRITE_ONCE(0, SECT, 1);
		spin_lock_ptl(0);
		WRITE_ONCE(0, UNUSED, 1);
		spin_unlock_ptl(0)
	:: test == DETACH_BEFORE_LIFE ->
		WRITE_ONCE(0, GEN, 0);
		smp_wmb(0);
		WRITE_ONCE(0, SECT, 1)
	:: test == THE_DRAIN ->
		smp_store_release(0, GEN, 2);
		smp_wmb(0);
		spin_lock_ptl(0);
		spin_unlock_ptl(0);
		READ_ONCE(0, PTE, w0)
	:: test == TABLES_DRAIN || test == THIRD_FAULT ->
		smp_store_release(0, GEN, 2);
		smp_wmb(0);
		smp_mb(0);
		READ_ONCE(0, SECT, w1);
		smp_rmb(0);	/* smp_acquire__after_ctrl_dep() */
		READ_ONCE(0, PTE, w0)
	:: test == CLASSIC_FAULT ->
		smp_store_release(0, GEN, 2);
		smp_wmb(0);
#ifndef NO_MB
		smp_mb(0);
#endif
		smp_store_release(0, SECT, 1)
	:: test == GRACE_PERIOD ->
		smp_store_release(0, GEN, 2);
		smp_wmb(0);
		synchronize_rcu(0);
		READ_ONCE(0, PTE, w0);
		WRITE_ONCE(0, SECT, 1)
	:: test == CORR || test == WRC_RELEASE_ACQUIRE ->
		WRITE_ONCE(0, FIELD, 1)
	:: test == STORE_BUFFERING ->
		WRITE_ONCE(0, FIELD, 1);
#ifndef NO_MB
		smp_mb(0);
#endif
		READ_ONCE(0, PTE, w0)
	fi;
	ended++
}

proctype P1()
{
	if
	:: test == MARK_BEFORE_CHANGE ->
		smp_load_acquire(1, GEN, r0);
		READ_ONCE(1, FIELD, r1);
#ifndef NO_RMB
		smp_rmb(1);
#endif
		smp_load_acquire(1, GEN, r2)
	:: test == SECTION_END ->
		smp_load_acquire(1, GEN, r0);
		smp_load_acquire(1, SECT, r1);
		READ_ONCE(1, FIELD, r2);
		smp_rmb(1);
		smp_load_acquire(1, GEN, r3)
	:: test == LIFE_BEFORE_MARK ->
		spin_lock_ptl(1);
		READ_ONCE(1, UNUSED, w1);
		spin_unlock_ptl(1);
		if
		:: w1 ->
			WRITE_ONCE(1, GEN, 0);
			smp_wmb(1);
			WRITE_ONCE(1, FIELD, 2);
#ifdef WMB_FOR_RELEASE
			smp_wmb(1);
			WRITE_ONCE(1, GEN, 1)
#else
			smp_store_release(1, GEN, 1)
#endif
		:: else
		fi
	:: test == DETACH_BEFORE_LIFE ->
		smp_load_acquire(1, SECT, r0);
		smp_load_acquire(1, GEN, r1)
	:: test == THE_DRAIN ->
		spin_lock_ptl(1);
		smp_rmb(1);
		smp_load_acquire(1, GEN, r0);
		if
		:: r0 == 1 -> WRITE_ONCE(1, PTE, 1)
		:: else
		fi;
		spin_unlock_ptl(1)
	:: test == TABLES_DRAIN ->
		WRITE_ONCE(1, SECT, 1);
		smp_mb(1);
		smp_load_acquire(1, GEN, r0);
		if
		:: r0 == 1 -> WRITE_ONCE(1, PTE, 1)
		:: else
		fi;
		smp_store_release(1, SECT, 0)
	:: test == THIRD_FAULT ->
		WRITE_ONCE(1, SECT, 1);
		smp_mb(1);
		WRITE_ONCE(1, PTE, 1);
		smp_store_release(1, SECT, 0)
	:: test == CLASSIC_FAULT ->
		smp_load_acquire(1, SECT, w1);
		smp_wmb(1);
		WRITE_ONCE(1, PTE, 1)
	:: test == GRACE_PERIOD ->
		in_rcu[1] = 1;
		smp_load_acquire(1, GEN, r0);
		READ_ONCE(1, SECT, r1);
		if
		:: r0 == 1 -> WRITE_ONCE(1, PTE, 1)
		:: else
		fi;
		in_rcu[1] = 0
	:: test == CORR ->
		READ_ONCE(1, FIELD, r0);
		READ_ONCE(1, FIELD, r1)
	:: test == WRC_RELEASE_ACQUIRE ->
		READ_ONCE(1, FIELD, w1);
#ifdef WMB_FOR_RELEASE
		smp_wmb(1);
		WRITE_ONCE(1, PTE, 1)
#else
		smp_store_release(1, PTE, 1)
#endif
	:: test == STORE_BUFFERING ->
		WRITE_ONCE(1, PTE, 1);
#ifndef NO_MB
		smp_mb(1);
#endif
		READ_ONCE(1, FIELD, r0)
	fi;
	ended++
}

proctype P2()
{
	if
	:: test == LIFE_BEFORE_MARK ->
		READ_ONCE(2, FIELD, r0);
		smp_rmb(2);
		smp_load_acquire(2, GEN, r1);
		READ_ONCE(2, SECT, r2)
	:: test == THIRD_FAULT || test == CLASSIC_FAULT ->
		READ_ONCE(2, PTE, r0);
		smp_rmb(2);
		smp_load_acquire(2, GEN, r1)
	:: test == WRC_RELEASE_ACQUIRE ->
		smp_load_acquire(2, PTE, r0);
		READ_ONCE(2, FIELD, r1)
	:: else
	fi;
	ended++
}

init {
	atomic {
		value[NTH(GEN, 0)] = 1;
		if
#ifdef WEAK
		:: test = WEAK
#else
		:: test = MARK_BEFORE_CHANGE
		:: test = SECTION_END; value[NTH(SECT, 0)] = 2
		:: test = LIFE_BEFORE_MARK
		:: test = DETACH_BEFORE_LIFE
		:: test = THE_DRAIN
		:: test = TABLES_DRAIN
		:: test = THIRD_FAULT
		:: test = CLASSIC_FAULT
		:: test = GRACE_PERIOD
		:: test = CORR
		:: test = WRC_RELEASE_ACQUIRE
		:: test = STORE_BUFFERING
#endif
		fi;
		run P0();
		run P1();
		run P2()
	}
	atomic {
		ended == 3;
		if
		:: test == MARK_BEFORE_CHANGE ->
			forbidden_outcome = r0 == 1 && r1 == 1 && r2 == 1
		:: test == SECTION_END ->
			forbidden_outcome = r0 == 2 && r1 == 3 && r2 == 0 &&
					    r3 == 2
		:: test == LIFE_BEFORE_MARK ->
			forbidden_outcome = r0 == 2 && r1 == 1 && r2 == 0
		:: test == DETACH_BEFORE_LIFE ->
			forbidden_outcome = r0 == 1 && r1 == 1
		:: test == THE_DRAIN ->
			forbidden_outcome = w0 == 0 && r0 == 1
		:: test == TABLES_DRAIN ->
			forbidden_outcome = w1 == 0 && w0 == 0 && r0 == 1
		:: test == THIRD_FAULT ->
			forbidden_outcome = w1 == 0 && w0 == 0 && r0 == 1 &&
					    r1 == 1
		:: test == CLASSIC_FAULT ->
			forbidden_outcome = w1 == 1 && r0 == 1 && r1 == 1
		:: test == GRACE_PERIOD ->
			forbidden_outcome = r0 == 1 && (w0 == 0 || r1 == 1)
		:: test == CORR ->
			forbidden_outcome = r0 == 1 && r1 == 0
		:: test == WRC_RELEASE_ACQUIRE ->
			forbidden_outcome = w1 == 1 && r0 == 1 && r1 == 0
		:: test == STORE_BUFFERING ->
			forbidden_outcome = w0 == 0 && r0 == 0
		fi;
#ifdef WEAK
		weak_outcome = forbidden_outcome;
		assert(!weak_outcome)
#else
		assert(!forbidden_outcome)
#endif
	}
}
