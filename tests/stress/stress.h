/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stress test: writers own pages and check them, adversaries change the
 * address space under them. Every check is exact, whatever the timing.
 *
 * A page has one writer, which knows the value of each word of it. What an
 * adversary does to a region, it announces in the region's state: MOVING
 * before the system call, the new state after it returned. The state carries a
 * count; when a writer reads the same state before and after an access, the
 * access lay wholly in that state and must have ended as the state says.
 */
#ifndef STRESS_H
#define STRESS_H

#include <setjmp.h>
#include <sys/types.h>

#include "spf.h"

#define WORDS		64	/* words of a page that are written: one a line */
#define MAX_PAGES	64
#define MAX_WRITERS	8
/* Rest after what write-protects every page of the process. */
#define REST_US		20000

enum state {
	OPEN,		/* loads and stores succeed */
	READONLY,	/* stores fault */
	ZEROED,		/* stores fault, all words are zero */
	FILLED,		/* stores fault, all words are FILL */
	GONE,		/* loads and stores fault */
	GUARDED,	/* userfaultfd: an absent page raises SIGBUS */
	MOVING,		/* anything goes */
};

#define FILL	0x0f0f0f0f0f0f0f0fULL

/* What the owner knows: words below done hold now, the others before. */
struct page_state {
	uint64_t now, before, last;
	unsigned int done;
};

struct region {
	const char *name;
	unsigned int id;
	char *base[2];		/* [1]: the place it is moved to, or NULL */
	uint64_t state[2];	/* count << 3 | enum state */
	size_t pages;
	size_t step;		/* bytes from page to page */
	bool lossy;		/* pages may turn to zero */
	bool filled;		/* pages may turn to FILL */
	bool keep_even;		/* owners discard odd pages only */
	struct page_state page[MAX_PAGES];
	uint64_t committed[MAX_PAGES];	/* the newest wholly written stamp */
};

struct adversary {
	const char *name;
	/* Makes the region; false: this kernel lacks what it needs. */
	bool (*setup)(struct adversary *a);
	void (*op)(struct adversary *a);	/* one operation */
	void (*finish)(struct adversary *a);	/* may be NULL */
	struct region *r;
	bool asked;
	bool alone;		/* only when asked for: it leaves no CPU idle */
	uint64_t rng;
	uint64_t ops;
};

extern struct adversary adversaries[];
extern const size_t nr_adversaries;
extern volatile bool stopping;
extern unsigned int nr_writers;
extern unsigned int nr_cpus;
extern uint64_t errors;
extern uint64_t seed;

/* This thread's access to a page that may fault, and where it goes on then. */
struct guard {
	sigjmp_buf jump;
	char *at;		/* the page */
	volatile bool armed;
	int sig;		/* what it raised */
};

extern __thread struct guard guard;
/* SIGSEGV and SIGBUS of a guarded access jump; any other ends the program. */
void guard_signals(void);

void writers_start(void);
void writers_join(void);
void writers_check(void);
void writers_report(void);

struct region *region_new(const char *name, size_t pages, size_t step);
/* Address space that nothing else uses, from a page table's start. */
char *arena_take(size_t bytes);
void map_at(char *at, size_t bytes, int prot);

/* The word that writer's seq-th writing puts there; 0 for seq 0. */
uint64_t stamp(const struct region *r, size_t page, size_t word, uint64_t seq);
uint64_t stamp_seq(uint64_t value);

static inline volatile uint64_t *word_at(char *page, size_t word)
{
	return (volatile uint64_t *)(page + word * (spf_page / WORDS));
}

static inline char *page_at(const struct region *r, int side, size_t page)
{
	return r->base[side] + page * r->step;
}

static inline size_t region_bytes(const struct region *r)
{
	return r->pages * r->step;
}

/* A count << 3 and a state. Who announces is one thread at a time. */
static inline void announce(uint64_t *state, unsigned int s)
{
	uint64_t count = (*state >> 3) + 1;

	__atomic_store_n(state, count << 3 | s, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline uint64_t announced(const uint64_t *state)
{
	uint64_t s;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	s = __atomic_load_n(state, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return s;
}

static inline void set_state(struct region *r, int side, enum state s)
{
	announce(&r->state[side], s);
}

/* Counts an error and prints it; any thread, any process's parent. */
void data_error(const char *where, const void *at, uint64_t expected,
		uint64_t found, const char *what);
void pause_random(uint64_t *rng, unsigned int max_us);
/* Lets the kernel store, which reads a pipe; false: it met EFAULT. */
bool kernel_store(const int pipe[2], volatile uint64_t *at, uint64_t v);

/* A child leaves what it found to its parent, who reaps it, and ends. */
void children_init(void);
void child_error(const volatile void *at, uint64_t expected, uint64_t found,
		 const char *what) __attribute__((noreturn));
void reap(const struct adversary *a, pid_t pid);

bool fork_setup(struct adversary *a);
void fork_op(struct adversary *a);
bool exec_setup(struct adversary *a);
void exec_op(struct adversary *a);
bool threads_setup(struct adversary *a);
void threads_op(struct adversary *a);
bool forkcow_setup(struct adversary *a);
void forkcow_op(struct adversary *a);
void forkcow_finish(struct adversary *a);

#endif
