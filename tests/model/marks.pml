/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What include/linux/mmap_lock.h has of speculative page faults, under the
 * same names.  Each barrier, check and word can be removed, by a macro.
 *
 * Before: memory.pml, and the locations GEN and LIFE (vma->vm_mark), SECT
 * (mm->vma_write_gen), MM for MM_FOR_LIFE.
 */
byte	section = 2;		/* SECT, as who holds mmap_lock has it */

/* Of a reader */
#define MARK_VARIABLES \
	byte life, gen, sect, life2, gen2; \
	bit valid

#ifdef MM_FOR_LIFE
#define LIFE_WORD	MM
#else
#define LIFE_WORD	LIFE
#endif

inline mm_end_vma_marks(cpu)
{
	atomic {
		section++;
#ifdef NO_END_RELEASE
		WRITE_ONCE(cpu, SECT, section)
#else
		smp_store_release(cpu, SECT, section)
#endif
	}
}

inline wmb_after_mark(cpu)
{
#ifdef NO_WMB
	skip
#else
	smp_wmb(cpu)
#endif
}

inline vma_write_mark(cpu, number)
{
	atomic {
#ifdef NO_MARK_RELEASE
		WRITE_ONCE(cpu, GEN, number);
#else
		smp_store_release(cpu, GEN, number);
#endif
		wmb_after_mark(cpu)
	}
}

inline vma_mark_detached(cpu)
{
	atomic {
		WRITE_ONCE(cpu, GEN, 0);
		wmb_after_mark(cpu)
	}
}

/* Goes to out if it fails. */
inline vma_sample(cpu)
{
#ifdef NO_SAMPLE_LIFE_ACQUIRE
	READ_ONCE(cpu, LIFE_WORD, life);
#else
	smp_load_acquire(cpu, LIFE_WORD, life);
#endif
	atomic {
#ifdef NO_SAMPLE_GEN_ACQUIRE
		READ_ONCE(cpu, GEN, gen);
#else
		smp_load_acquire(cpu, GEN, gen);
#endif
		if
		:: gen == 0 -> goto out
		:: else
		fi
	}
	atomic {
#ifdef NO_SECT_ACQUIRE
		READ_ONCE(cpu, SECT, sect);
#else
		smp_load_acquire(cpu, SECT, sect);
#endif
		if
#ifndef NO_SECT_CHECK
		:: gen >= sect -> goto out
#endif
		:: else
		fi
	}
}

/* Sets valid. */
inline vma_unchanged(cpu)
{
	atomic {
#ifndef NO_RMB
		smp_rmb(cpu);
#endif
#ifdef NO_CHECK_ACQUIRE
		READ_ONCE(cpu, GEN, gen2)
#else
		smp_load_acquire(cpu, GEN, gen2)
#endif
	}
	atomic {
		valid = gen2 == gen;
#ifndef NO_LIFE
		READ_ONCE(cpu, LIFE_WORD, life2);
		valid = valid && life2 == life;
#endif
		gen2 = 0;
		life2 = 0
	}
}
