/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs that count faults kind by kind share. */
#ifndef KIND_H
#define KIND_H

#include <sys/types.h>

#include "spf.h"

/* Faults taken of each kind. */
#define FAULTS		10000
#define FLIP		0x5a
#define KIND_TESTS	4

/* Once: into a memcg of its own, and a second thread that sleeps. */
void kind_init(void);
/* Counts what happens in between, in as many rounds as a kind takes. */
void kind_begin(void);
void kind_end(void);
/* This thread's min_flt over the rounds. */
uint64_t kind_faults(void);
/*
 * Ends the kind. KIND_TESTS tests: the counters say that the n faults were handled,
 * they were accounted once, also to the memcg, and the memory held what it must.
 */
void kind_report(const char *kind, uint64_t n, bool contents);
void kind_skip(const char *kind, const char *why);
/* After a fork: gives this process back what the above write to. */
void kind_warm_up(void);

/* Anonymous memory: page tables and anon_vma are there, no page is. */
char *empty_area(size_t pages);
bool all_zero(char *area, size_t pages);
/* Anonymous memory, all of it present and page i stamped with i. */
char *stamped_area(size_t pages);
bool all_stamped(char *area, size_t pages);

/*
 * A child that shares the pages of a stamped area, takes no fault while the
 * parent counts, and verifies its side when asked to.
 */
struct twin {
	pid_t pid;
	int to, from;
};

void twin_start(struct twin *t, char *area, size_t pages);
bool twin_verify(struct twin *t);
/* Verifies, and lets the child end. */
bool twin_end(struct twin *t);

#endif
