// SPDX-License-Identifier: GPL-2.0
/*
 * fork() against copy-on-write. It write-protects page by page, and flushes the
 * TLB in the end: in between a third thread still stores by what its TLB has. A
 * page that is copied meanwhile loses such stores. See windows.h.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "windows.h"

static pthread_t hot;
static bool hot_stop;
static uint64_t sweeps;		/* each stored its number to each page */
static bool lost;		/* a store was */

static uint64_t swept(void)
{
	return __atomic_load_n(&sweeps, __ATOMIC_SEQ_CST);
}

static void hot_store(size_t i)
{
	volatile uint64_t *at = word_at(page(area, i), 1);
	uint64_t value = *at;

	if (!lost && !found("stored by a third", i, value, sweeps))
		lost = true;
	*at = sweeps + 1;
}

static void *hot_thread(void *arg)
{
	size_t i;

	while (!__atomic_load_n(&hot_stop, __ATOMIC_SEQ_CST)) {
		for (i = 0; i < MAX_FAULTS; i++)
			hot_store(i);
		__atomic_store_n(&sweeps, sweeps + 1, __ATOMIC_SEQ_CST);
	}
	return arg;
}

static const char *forkrace_setup(void)
{
	sweeps = 0;
	lost = false;
	take_area(MAX_FAULTS + 2 * BALLAST);
	populate(area, pages, MADV_POPULATE_WRITE);
	return NULL;
}

/* The hot thread has all pages in its TLB once it has swept them. */
static void forkrace_prepare(void)
{
	const uint64_t begin = sweeps;

	hot_stop = false;
	if (pthread_create(&hot, NULL, hot_thread, NULL))
		die("pthread_create");
	while (swept() < begin + 2)
		usleep(100);
}

/* One page after the other, at a pace at which all are not done before the fork. */
static bool forkrace_fault(size_t i)
{
	usleep(200);
	return store_in_area(i);
}

static void forkrace_race(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		_exit(0);
	if (waitpid(pid, NULL, 0) != pid)
		die("waitpid");
}

static bool forkrace_holds(void)
{
	size_t i;

	__atomic_store_n(&hot_stop, true, __ATOMIC_SEQ_CST);
	pthread_join(hot, NULL);
	for (i = 0; i < MAX_FAULTS; i++)
		hot_store(i);
	sweeps++;
	return !lost && stores_found(area);
}

const struct window fork_window = {
	.name = "fork",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = forkrace_setup,
	.prepare = forkrace_prepare,
	.fault = forkrace_fault,
	.race = forkrace_race,
	.holds = forkrace_holds,
	.finish = drop_area,
};
