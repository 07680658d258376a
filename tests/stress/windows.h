/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Races whose window is some instructions wide, made wide: faults linger at one
 * step of their way (debugfs, CONFIG_DEBUG_SPECULATIVE_PAGE_FAULT), while an
 * adversary acts. One thread faults on page after page, the main one is the
 * adversary, and checks what must hold after it.
 */
#ifndef WINDOWS_H
#define WINDOWS_H

#include <sys/mman.h>

#include "stress.h"

#define MAX_FAULTS	64	/* of a round */
#define FEW_PAGES	16
/* Pages that keep an adversary busy after it has passed those of the faults. */
#define BALLAST		1024
#define RW		(PROT_READ | PROT_WRITE)

/* Where faults linger, as in mm/spf.c. */
#define STEP_COPIED	4	/* the VMA was copied; interrupts are off */
#define STEP_READY	8	/* the page is there, the PTE not yet locked */
#define STEP_LOCKED	16	/* the PTE is locked, all is valid */
#define STEP_TABLE	32	/* the PMD table is, to get a PTE table */

struct window {
	const char *name;
	unsigned int step;
	unsigned int us;		/* how long they do */
	/* Moves by more than so much in a round: fault and adversary met. */
	enum spf_counter met;
	uint64_t above;
	/* Once; why not, if this kernel lacks what it needs. */
	const char *(*setup)(void);
	void (*prepare)(void);		/* before each round */
	/* The other thread's i-th of the round; false: no more of them. */
	bool (*fault)(size_t i);
	void (*race)(void);
	bool (*holds)(void);		/* after both */
	void (*finish)(void);
};

extern const struct window mprotect_window, bounds_window, munmap_window,
	pmddrain_window, mremap_window, movedrain_window, fork_window, ptesame_window,
	mlock_window, uffd_window, collapse_window, truncate_window, mbind_window,
	policy_window, tables_window;

/* Of the round: how many faults were done, and have they come to an end? */
extern size_t faults_done;
bool faults_ended(void);
/* No fault begins any more. After race() that is so anyway. */
void faults_stop(void);

/* What the i-th fault stores; none of another round. */
uint64_t fault_value(size_t i);
/* false: it raised a signal, and did not happen */
bool try_store(char *at, uint64_t value);
bool try_load(char *at, uint64_t *value);
/* Says so if it finds another value. */
bool found(const char *what, size_t i, uint64_t value, uint64_t expected);

/* The mapping that most of them are about; it begins where a page table does. */
extern char *area;
extern size_t pages;

size_t area_bytes(void);
/* Anonymous, with an anon_vma and page tables, but for pages. */
void take_area(size_t n);
const char *take_small_area(void);
void drop_area(void);

void map_pages(char *at, size_t n);
/* MADV_POPULATE_*: without a fault, for that would linger. */
void populate(char *at, size_t n, int advice);
void forget(char *at, size_t n);
void forget_area(void);
/* The first page of the i-th page table. */
char *of_table(size_t i);
void protect(char *at, size_t n, int prot);
void move(char *from, char *to);	/* what is as large as the area */

/* The i-th fault, a store to the i-th page from the first on. */
bool store_at(char *first, size_t i);
bool store_in_area(size_t i);
bool store_in_few(size_t i);
/* Was the i-th fault done, or begun? */
bool touched(size_t i);
bool stores_refused(char *first);
bool stores_found(char *first);

#endif
