// SPDX-License-Identifier: GPL-2.0
/* The rounds of the races, and what is said about them. See windows.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "windows.h"

#define KNOB		"/sys/kernel/debug/speculative_page_fault/"

static const struct window *const windows[] = {
	&mprotect_window,
	&bounds_window,
	&munmap_window,
	&pmddrain_window,
	&mremap_window,
	&movedrain_window,
	&fork_window,
	&ptesame_window,
	&mlock_window,
	&uffd_window,
	&collapse_window,
	&truncate_window,
	&mbind_window,
	&policy_window,
	&tables_window,
};

size_t faults_done;

static const struct window *window;	/* of the round */
static uint64_t round_begun, round_ended;
static bool stopped;
static uint64_t rng;

/* Rounds of a window. */
struct tally {
	uint64_t rounds;
	uint64_t handled;	/* with a speculative fault */
	uint64_t met;
	struct spf_stat stat;
};

bool faults_ended(void)
{
	return __atomic_load_n(&round_ended, __ATOMIC_ACQUIRE) == round_begun;
}

void faults_stop(void)
{
	__atomic_store_n(&stopped, true, __ATOMIC_SEQ_CST);
}

static void *faulter(void *arg)
{
	uint64_t seen = 0, round;

	for (;;) {
		round = __atomic_load_n(&round_begun, __ATOMIC_ACQUIRE);
		if (round == seen) {
			usleep(100);
			continue;
		}
		seen = round;
		faults_done = 0;
		while (faults_done < MAX_FAULTS &&
		       !__atomic_load_n(&stopped, __ATOMIC_SEQ_CST) &&
		       window->fault(faults_done))
			faults_done++;
		__atomic_store_n(&round_ended, seen, __ATOMIC_RELEASE);
	}
	return arg;
}

uint64_t fault_value(size_t i)
{
	return round_begun << 8 | (i + 1);
}

static bool try_access(char *at, uint64_t *value, bool store)
{
	guard.at = (char *)((uintptr_t)at & -spf_page);
	if (sigsetjmp(guard.jump, 0)) {
		guard.armed = false;
		return false;
	}
	guard.armed = true;
	if (store)
		*(volatile uint64_t *)at = *value;
	else
		*value = *(volatile uint64_t *)at;
	guard.armed = false;
	return true;
}

bool try_store(char *at, uint64_t value)
{
	return try_access(at, &value, true);
}

bool try_load(char *at, uint64_t *value)
{
	return try_access(at, value, false);
}

bool found(const char *what, size_t i, uint64_t value, uint64_t expected)
{
	if (value == expected)
		return true;
	tap_diag("%s, page %zu: expected %016" PRIx64 ", found %016" PRIx64,
		 what, i, expected, value);
	return false;
}

static void knob(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), KNOB "%s", name);
	errno = -spf_write_file(path, value);
	if (errno)
		die("cannot write %s to %s", value, path);
}

static void linger(const struct window *w, unsigned int step)
{
	char value[16];

	snprintf(value, sizeof(value), "%u", w->us);
	knob("delay_us", value);
	snprintf(value, sizeof(value), "%u", step);
	knob("delay", value);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

static bool one_round(const struct window *w, struct tally *t)
{
	struct spf_stat before, delta;
	size_t i;

	w->prepare();
	stopped = false;
	spf_read(&before);
	__atomic_store_n(&round_begun, round_begun + 1, __ATOMIC_RELEASE);
	/* After up to some faults. */
	usleep(spf_rand(&rng) % (3 * w->us));
	w->race();
	faults_stop();
	/* Without a system call: what this CPU's TLB has may matter. */
	while (!faults_ended())
		;
	spf_delta(&before, &delta);
	t->rounds++;
	t->handled += delta.v[SPF_HANDLED] > 0;
	t->met += delta.v[SPF_HANDLED] > 0 && delta.v[w->met] > w->above;
	for (i = 0; i < SPF_NR; i++)
		t->stat.v[i] += delta.v[i];
	return w->holds();
}

static void run(const struct window *w, uint64_t ms)
{
	const uint64_t start = now_ms();
	struct tally t = { .rounds = 0 };
	const char *missing;
	uint64_t took;
	bool good;

	if (access(KNOB "delay", W_OK))
		missing = "no " KNOB " (CONFIG_DEBUG_SPECULATIVE_PAGE_FAULT)";
	else
		missing = w->setup();
	if (missing) {
		tap_skip(missing, "%s", w->name);
		return;
	}
	window = w;
	linger(w, w->step);
	do {
		good = one_round(w, &t);
		took = now_ms() - start;
	} while (good && took < ms);
	linger(w, 0);
	w->finish();
	tap_diag("%s: %" PRIu64 " rounds in %" PRIu64 " ms, %" PRIu64
		 " with speculative faults, %" PRIu64 " in which they met it",
		 w->name, t.rounds, took, t.handled, t.met);
	if (good && !t.met)
		tap_skip("no speculative fault met the adversary", "%s",
			 w->name);
	else
		tap_ok(good, "%s", w->name);
	if (!good || !t.met)
		spf_diag(&t.stat);
}

static bool wanted(const struct window *w, const char *list)
{
	return !list || strstr(list, w->name);
}

int main(int argc, char **argv)
{
	const char *list = NULL;
	double seconds = 24;
	pthread_t thread;
	size_t i, n = 0;
	int opt;

	while ((opt = getopt(argc, argv, "s:S:t:")) != -1) {
		if (opt == 's')
			seconds = strtod(optarg, NULL);
		else if (opt == 'S')
			rng = strtoull(optarg, NULL, 0);
		else if (opt == 't')
			list = optarg;
		else
			return 2;
	}
	spf_init();
	spf_no_numa_hints();
	for (i = 0; i < ARRAY_SIZE(windows); i++)
		n += wanted(windows[i], list);
	tap_plan(n);
	guard_signals();
	if (pthread_create(&thread, NULL, faulter, NULL))
		die("pthread_create");
	for (i = 0; i < ARRAY_SIZE(windows); i++)
		if (wanted(windows[i], list))
			run(windows[i], seconds * 1000 / n);
	return tap_done();
}
