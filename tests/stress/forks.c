// SPDX-License-Identifier: GPL-2.0
/* The adversaries that make processes and threads. See stress.h. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress.h"

#define CHILD		0xc0c0c0c0c0c0c0c0ULL
#define THREAD_PAGES	32
#define MAX_SLOTS	16
#define DWELL		2000
#define BALLAST		(16UL << 20)

bool fork_setup(struct adversary *a)
{
	children_init();
	a->r = region_new(a->name, MAX_PAGES, spf_page);
	a->r->keep_even = true;
	return true;
}

/*
 * One writing at a time: the first words may be of a newer one than the rest,
 * and the rest of a page that is never discarded is not older than what its
 * owner had published before the fork.
 */
static void child_check_page(struct region *r, size_t page,
			     const uint64_t *words, uint64_t committed)
{
	uint64_t head = stamp_seq(words[0]), tail = stamp_seq(words[WORDS - 1]);
	volatile uint64_t *at = word_at(page_at(r, 0, page), 0);
	bool in_tail = false;
	size_t i;

	if (!(page & 1) && tail < committed)
		child_error(at, stamp(r, page, WORDS - 1, committed),
			    words[WORDS - 1], "child misses a write");
	for (i = 0; i < WORDS; i++) {
		at = word_at(page_at(r, 0, page), i);
		if (!in_tail && words[i] == stamp(r, page, i, head))
			continue;
		in_tail = true;
		if (words[i] != stamp(r, page, i, tail))
			child_error(at, stamp(r, page, i, tail), words[i],
				    "child's page is no snapshot");
	}
}

/* The child changes every third page, and nobody the others. */
static void child(struct region *r, const uint64_t *committed)
{
	static uint64_t copy[MAX_PAGES][WORDS];
	size_t page, i;

	for (page = 0; page < r->pages; page++)
		for (i = 0; i < WORDS; i++)
			copy[page][i] = *word_at(page_at(r, 0, page), i);
	for (page = 0; page < r->pages; page++)
		child_check_page(r, page, copy[page], committed[page]);
	for (page = 0; page < r->pages; page += 3)
		for (i = 0; i < WORDS; i++) {
			copy[page][i] = CHILD ^ page;
			*word_at(page_at(r, 0, page), i) = CHILD ^ page;
		}
	usleep(1000);
	for (page = 0; page < r->pages; page++)
		for (i = 0; i < WORDS; i++) {
			volatile uint64_t *at = word_at(page_at(r, 0, page), i);
			uint64_t v = *at;

			if (v != copy[page][i])
				child_error(at, copy[page][i], v,
					    "child's page changed");
		}
	_exit(0);
}

void fork_op(struct adversary *a)
{
	uint64_t committed[MAX_PAGES];
	struct region *r = a->r;
	size_t i;
	pid_t pid;

	for (i = 0; i < r->pages; i++)
		committed[i] = __atomic_load_n(&r->committed[i],
					       __ATOMIC_ACQUIRE);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		child(r, committed);
	reap(a, pid);
	usleep(REST_US);
}

bool exec_setup(struct adversary *a)
{
	(void)a;
	return true;
}

/* fork and exec, or both in one, which shares the mm until the exec. */
void exec_op(struct adversary *a)
{
	char *const argv[] = { "stress", "-x", NULL };
	int status;
	pid_t pid;

	if (spf_rand(&a->rng) & 1) {
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid) {
			execv("/proc/self/exe", argv);
			_exit(2);
		}
	} else if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv,
			       environ)) {
		die("posix_spawn");
	}
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		data_error(a->name, NULL, 0, status, "wait status after exec");
	usleep(REST_US);
}

bool threads_setup(struct adversary *a)
{
	(void)a;
	return true;
}

/*
 * Uses its whole stack once: each page is new, but for the first ones that the
 * thread's start has used, and keeps what is put there.
 */
static void *short_life(void *arg)
{
	struct adversary *a = arg;
	volatile char page_room[(THREAD_PAGES - 8) * 4096];
	size_t i;

	for (i = sizeof(page_room); i > 0; i -= 64) {
		if (page_room[i - 64] && i < sizeof(page_room) - 4 * 4096)
			data_error(a->name, (void *)&page_room[i - 64], 0,
				   page_room[i - 64], "new stack is not zero");
		page_room[i - 64] = i >> 6;
	}
	for (i = sizeof(page_room); i > 0; i -= 64)
		if (page_room[i - 64] != (char)(i >> 6))
			data_error(a->name, (void *)&page_room[i - 64], i >> 6,
				   page_room[i - 64], "stack was changed");
	return NULL;
}

void threads_op(struct adversary *a)
{
	size_t bytes = THREAD_PAGES * 4096 + 4 * spf_page;
	pthread_attr_t attr;
	pthread_t thread;
	char *stack;

	stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		     MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		die("mmap of a stack");
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, stack, bytes) ||
	    pthread_create(&thread, &attr, short_life, a))
		die("pthread_create");
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
	if (munmap(stack, bytes))
		die("munmap of a stack");
}

/*
 * Several threads write to each page, each its own slot: some stay on a page
 * with a hot TLB, the others come along and copy the page on write. A store
 * through a stale TLB entry, after the copy, is lost, and its slot tells.
 */
struct slot_thread {
	pthread_t thread;
	unsigned int slot;
	bool hot;
	uint64_t rng;
	uint64_t count[MAX_PAGES];
};

static struct slot_thread slots[MAX_SLOTS];
static unsigned int nr_slots;
static char *shared;		/* the pages, below the ballast */
static volatile bool slots_stop;

static void slot_step(struct slot_thread *t, size_t page)
{
	volatile uint64_t *at = word_at(shared + page * spf_page, t->slot);
	uint64_t v = *at;

	if (v != t->count[page]) {
		data_error("forkcow", (void *)at, t->count[page], v,
			   "write was lost");
		t->count[page] = v;
	}
	*at = ++t->count[page];
}

static void *slot_thread(void *arg)
{
	struct slot_thread *t = arg;
	size_t page = t->slot % MAX_PAGES, i;

	while (!slots_stop) {
		if (t->hot)
			page = spf_rand(&t->rng) % MAX_PAGES;
		else
			page = (page + 1) % MAX_PAGES;
		for (i = t->hot ? DWELL : 1; i; i--)
			slot_step(t, page);
	}
	return NULL;
}

bool forkcow_setup(struct adversary *a)
{
	size_t bytes = MAX_PAGES * spf_page + BALLAST, i;

	shared = arena_take(bytes);
	map_at(shared, bytes, PROT_READ | PROT_WRITE);
	madvise(shared, bytes, MADV_NOHUGEPAGE);
	for (i = MAX_PAGES * spf_page; i < bytes; i += spf_page)
		touch_write(shared + i, 1);
	nr_slots = nr_cpus < 4 ? 4 : nr_cpus;
	if (nr_slots > MAX_SLOTS)
		nr_slots = MAX_SLOTS;
	for (i = 0; i < nr_slots; i++) {
		slots[i].slot = i;
		slots[i].hot = i & 1;
		slots[i].rng = a->rng + i;
		if (pthread_create(&slots[i].thread, NULL, slot_thread,
				   &slots[i]))
			die("pthread_create");
	}
	return true;
}

void forkcow_op(struct adversary *a)
{
	pid_t pid = fork();
	int status;

	(void)a;
	if (pid < 0)
		die("fork");
	if (!pid)
		_exit(0);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
}

void forkcow_finish(struct adversary *a)
{
	uint64_t sum = 0;
	size_t i, page;

	(void)a;
	slots_stop = true;
	for (i = 0; i < nr_slots; i++)
		pthread_join(slots[i].thread, NULL);
	for (i = 0; i < nr_slots; i++)
		for (page = 0; page < MAX_PAGES; page++) {
			slot_step(&slots[i], page);
			sum += slots[i].count[page];
		}
	tap_diag("forkcow: %u threads, %" PRIu64 " increments", nr_slots, sum);
}
