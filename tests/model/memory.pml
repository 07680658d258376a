/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Weak memory, for the models that include this.
 *
 * A location that is read without a lock keeps every value that it ever had,
 * numbered from 0.  A *view* says of each location which of its stores is the
 * oldest that may still be loaded, in four bits a location.  A load takes any
 * store that is not older: that is how stores are delayed and pass each other,
 * and how loads do.  What barriers do is to raise views:
 *
 *   sees[cpu]	binds each load of the CPU.  Its own stores, and what it loaded
 *		before from the same location, are in it (coherence).
 *   heard[cpu]	what came with the stores that it loaded, but does not bind its
 *		loads until smp_rmb() or an acquire says so.  Holds sees[].
 *   own[cpu]	the CPU's own stores, and what went along with them.
 *   ahead[cpu]	own[] at the last smp_wmb(): goes along with each later store.
 *   sent[]	what goes along with one store.
 *
 * So WRITE_ONCE() and READ_ONCE() order nothing but their own location,
 * smp_wmb() the stores of a CPU, smp_rmb() its loads, a release all that came
 * before, an acquire all that comes after, and a release passes on what its
 * CPU had loaded, and smp_mb() lets all CPUs hear of what its CPU had heard of:
 * as in the kernel's memory model (tools/memory-model), of which store buffers
 * that drain in order (TSO) or by address (PSO), and stores that reach one CPU
 * before another, are special cases.  Plain accesses
 * are like WRITE_ONCE() and READ_ONCE().  A copy that is torn shows as fields
 * of several versions.
 *
 * What a CPU stores between two steps that others wait for may be one step:
 * who loads in between finds the same as who comes later and takes an older
 * store.
 *
 * A store is never executed before a load that precedes it.  The kernel's
 * model lets that happen without a dependency, a lock or a release between
 * them; here each store to such a location follows one of the three.
 *
 * To be defined before: CPUS, LOCS (at most 8), STORES (to one location, the
 * first value included, at most 15).
 */
#define TS(view, loc)	(((view) >> (4 * (loc))) & 15)
#define ONLY(loc)	(15 << (4 * (loc)))
#define SET(view, loc, ts) \
	(((view) & ~ONLY(loc)) | ((ts) << (4 * (loc))))
#define NTH(loc, ts)	((loc) * STORES + (ts))

byte	value[LOCS * STORES];
int	sent[LOCS * STORES];
byte	last[LOCS];
int	sees[CPUS], heard[CPUS], own[CPUS], ahead[CPUS];

/* Scratch, dead after each step, and so no part of the state. */
hidden byte l_, ts_;
hidden int v_;
hidden byte c_;

inline join(view, other)
{
	l_ = 0;
	do
	:: l_ < LOCS ->
		if
		:: TS(other, l_) > TS(view, l_) ->
			view = SET(view, l_, TS(other, l_))
		:: else
		fi;
		l_++
	:: else -> break
	od;
	l_ = 0
}

/* What came to a CPU: all of it is heard, and what the mask has is seen. */
inline receive(cpu, view, mask)
{
	l_ = 0;
	do
	:: l_ < LOCS ->
		if
		:: TS(view, l_) > TS(heard[cpu], l_) ->
			heard[cpu] = SET(heard[cpu], l_, TS(view, l_))
		:: else
		fi;
		if
		:: TS(view & (mask), l_) > TS(sees[cpu], l_) ->
			sees[cpu] = SET(sees[cpu], l_, TS(view, l_))
		:: else
		fi;
		l_++
	:: else -> break
	od;
	l_ = 0
}

/* val is evaluated late: it must not depend on last[]. */
inline store(cpu, loc, val, along)
{
	v_ = along;
	last[loc]++;
	assert(last[loc] < STORES);
	value[NTH(loc, last[loc])] = val;
	v_ = SET(v_, loc, last[loc]);
	sent[NTH(loc, last[loc])] = v_;
	join(own[cpu], v_);
	sees[cpu] = SET(sees[cpu], loc, last[loc]);
	heard[cpu] = SET(heard[cpu], loc, last[loc]);
	v_ = 0
}

inline WRITE_ONCE(cpu, loc, val)
{
	d_step { store(cpu, loc, val, ahead[cpu]) }
}

inline smp_store_release(cpu, loc, val)
{
	d_step { store(cpu, loc, val, heard[cpu]) }
}

inline smp_wmb(cpu)
{
	ahead[cpu] = own[cpu]
}

inline smp_rmb(cpu)
{
	sees[cpu] = heard[cpu]
}

/* mask: what of that which comes along binds the next loads */
inline load(cpu, loc, to, mask)
{
	atomic {
		ts_ = TS(sees[cpu], loc);
		do
		:: ts_ < last[loc] -> ts_++
		:: break
		od;
		skip;	/* spin lets no break jump into a d_step */
		d_step {
			to = value[NTH(loc, ts_)];
			sees[cpu] = SET(sees[cpu], loc, ts_);
			receive(cpu, sent[NTH(loc, ts_)], mask);
			ts_ = 0
		}
	}
}

#define READ_ONCE(cpu, loc, to)			load(cpu, loc, to, 0)
#define smp_load_acquire(cpu, loc, to)		load(cpu, loc, to, ~0)
/* An address dependency: it binds only the loads of what is pointed to. */
#define rcu_dereference(cpu, loc, to, pointee)	load(cpu, loc, to, pointee)

/* To a CPU, by a lock, an interrupt or a grace period. */
inline hand_over(cpu, view)
{
	receive(cpu, view, ~0)
}

inline smp_mb(cpu)
{
	d_step {
		c_ = 0;
		do
		:: c_ < CPUS -> receive(c_, heard[cpu], 0); c_++
		:: else -> break
		od;
		c_ = 0;
		sees[cpu] = heard[cpu];
		ahead[cpu] = heard[cpu]
	}
}

/*
 * The next section of mmap_lock is maybe another CPU's.  That sees all that
 * the one before saw, as the lock orders it, but its smp_wmb() is for its own
 * stores.  One process does for all writers: there is but one at a time.
 */
inline migrate(cpu)
{
	d_step { own[cpu] = 0; ahead[cpu] = 0 }
}

/* Nothing will depend on what it saw: fewer states. */
inline forget(cpu)
{
	sees[cpu] = 0;
	heard[cpu] = 0;
	own[cpu] = 0;
	ahead[cpu] = 0
}
