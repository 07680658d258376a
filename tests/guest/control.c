// SPDX-License-Identifier: GPL-2.0
/*
 * The sysctl vm.speculative_page_fault: what it refuses, that off means no
 * attempt, that it takes effect at once under load without losing data, and
 * that a fault is accounted the same whichever way it went.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spf.h"

#define TESTS		19
#define PAGES		500
#define LOADERS		4
#define LOAD_PAGES	16
#define FLIPS		50
#define FOREIGN		32	/* faults of other processes */

static size_t bytes;

static void set(bool on)
{
	int ret = spf_sysctl_write(on ? "1" : "0");

	if (ret) {
		errno = -ret;
		die("cannot write vm.speculative_page_fault (run as root)");
	}
}

static void test_values(void)
{
	static const char *const bad[] = { "2", "-1", "x", "1x", "99999999999" };
	int value = -1;
	size_t i;

	set(false);
	spf_sysctl_get(&value);
	tap_ok(value == 0, "reads 0 after 0 was written");
	set(true);
	spf_sysctl_get(&value);
	tap_ok(value == 1, "reads 1 after 1 was written");
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		int ret = spf_sysctl_write(bad[i]);

		spf_sysctl_get(&value);
		tap_ok(ret == -EINVAL && value == 1,
		       "refuses \"%s\" (returned %d, value %d)", bad[i], ret,
		       value);
	}
}

/* Accounting: one loop of many kinds of faults, and what counted them. */
enum {
	MIN_FLT,
	MAJ_FLT,
	PERF_ALL,
	PERF_MIN,
	PERF_MAJ,
	NR_ACCOUNTS
};

static const char *const account_name[NR_ACCOUNTS] = {
	"min_flt", "maj_flt", "perf page-faults", "perf minor-faults",
	"perf major-faults",
};

struct accounts {
	uint64_t v[NR_ACCOUNTS];
	struct spf_stat stat;
};

static int perf_fd[NR_ACCOUNTS];

static int perf_open(uint64_t config)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = config,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1,
		       PERF_FLAG_FD_CLOEXEC);
}

static void accounts_read(struct accounts *a)
{
	struct rusage ru;
	int i;

	getrusage(RUSAGE_THREAD, &ru);
	for (i = PERF_ALL; i < NR_ACCOUNTS; i++)
		if (perf_fd[i] < 0 || read(perf_fd[i], &a->v[i], 8) != 8)
			a->v[i] = 0;
	a->v[MIN_FLT] = ru.ru_minflt;
	a->v[MAJ_FLT] = ru.ru_majflt;
}

static sigjmp_buf jump;

static void on_signal(int sig)
{
	(void)sig;
	siglongjmp(jump, 1);
}

/* Does a write raise SIGSEGV? */
static bool refuses_write(char *p)
{
	if (sigsetjmp(jump, 1))
		return true;
	touch_write(p, 1);
	return false;
}

/* The same faults each time; true if the memory held what it must. */
static bool fault_loop(void)
{
	char *area = area_map(bytes), *file = area_map(bytes);
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	int fd = memfd_create("control", MFD_CLOEXEC);
	bool good = true;
	size_t i;

	if (zero < 0 || fd < 0 || ftruncate(fd, bytes))
		die("/dev/zero, memfd_create");
	for (i = 0; i < PAGES; i++)		/* first table, anon_vma, page */
		touch_write(page(area, i), 1);
	madvise(area, bytes, MADV_DONTNEED);
	for (i = 0; i < PAGES; i++)		/* zero page */
		good &= !touch_read(page(area, i));
	for (i = 0; i < PAGES; i++)		/* zero page to page */
		page_stamp(page(area, i), i);
	mprotect(area, bytes, PROT_READ);
	for (i = 0; i < PAGES; i++)		/* no right */
		good &= refuses_write(page(area, i));
	mprotect(area, bytes, PROT_READ | PROT_WRITE);
	for (i = 0; i < PAGES; i++)
		good &= page_is_stamped(page(area, i), i);
	madvise(area, bytes, MADV_DONTNEED);
	good &= read(zero, area, bytes) == (ssize_t)bytes;	/* kernel */
	for (i = 0; i < PAGES; i++)
		good &= page_is_zero(page(area, i));
	if (mmap(file, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 fd, 0) != file)
		die("mmap of a memfd");
	for (i = 0; i < PAGES; i++)		/* shared file */
		touch_write(page(file, i), 2);
	for (i = 0; i < PAGES; i++)
		good &= touch_read(page(file, i)) == 2;
	close(zero);
	close(fd);
	area_unmap(area, bytes);
	area_unmap(file, bytes);
	return good;
}

static bool account(struct accounts *d)
{
	struct accounts a;
	struct spf_stat s;
	bool good;
	int i;

	spf_read(&s);
	accounts_read(&a);
	good = fault_loop();
	accounts_read(d);
	spf_delta(&s, &d->stat);
	for (i = 0; i < NR_ACCOUNTS; i++)
		d->v[i] -= a.v[i];
	return good;
}

static void test_accounting(void)
{
	static struct accounts off, on;
	bool good;
	int64_t diff;
	int i;

	perf_fd[PERF_ALL] = perf_open(PERF_COUNT_SW_PAGE_FAULTS);
	perf_fd[PERF_MIN] = perf_open(PERF_COUNT_SW_PAGE_FAULTS_MIN);
	perf_fd[PERF_MAJ] = perf_open(PERF_COUNT_SW_PAGE_FAULTS_MAJ);
	signal(SIGSEGV, on_signal);
	set(false);
	good = fault_loop();	/* its code and stack are there from now on */
	good &= account(&off);
	set(true);
	good &= account(&on);
	tap_ok(good, "contents, off and on");
	tap_ok(!off.stat.v[SPF_ATTEMPT] && !off.stat.v[SPF_HANDLED],
	       "off: %" PRIu64 " attempts", off.stat.v[SPF_ATTEMPT]);
	tap_ok(on.stat.v[SPF_HANDLED] >= 2 * PAGES,
	       "on: %" PRIu64 " handled", on.stat.v[SPF_HANDLED]);
	for (i = 0; i < NR_ACCOUNTS; i++) {
		const char *name = account_name[i];

		if (i >= PERF_ALL && perf_fd[i] < 0)
			tap_skip("no perf event", "%s", name);
		else
			tap_ok(off.v[i] == on.v[i], "%s: off %" PRIu64
			       ", on %" PRIu64, name, off.v[i], on.v[i]);
	}
	diff = on.stat.v[SPF_PGFAULT] - off.stat.v[SPF_PGFAULT];
	tap_ok(diff <= FOREIGN && diff >= -FOREIGN, "pgfault: off %" PRIu64
	       ", on %" PRIu64, off.stat.v[SPF_PGFAULT],
	       on.stat.v[SPF_PGFAULT]);
}

/* Flips under load. */
struct loader {
	pthread_t thread;
	char *area;
	uint64_t rounds;
	bool bad;
};

static struct loader loaders[LOADERS];
static volatile bool stopping;

static void *load(void *arg)
{
	struct loader *l = arg;
	uint64_t seed = 0;
	size_t i;

	while (!stopping) {
		for (i = 0; i < LOAD_PAGES; i++) {
			if (touch_read(page(l->area, i)))
				l->bad = true;
			page_stamp(page(l->area, i), seed + i);
		}
		for (i = 0; i < LOAD_PAGES; i++)
			if (!page_is_stamped(page(l->area, i), seed + i))
				l->bad = true;
		madvise(l->area, LOAD_PAGES * spf_page, MADV_DONTNEED);
		seed += LOAD_PAGES;
		__atomic_add_fetch(&l->rounds, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* Every thread ends the round it is in, and n more. */
static void wait_rounds(unsigned int n)
{
	size_t i;

	for (i = 0; i < LOADERS; i++) {
		uint64_t now = __atomic_load_n(&loaders[i].rounds,
					       __ATOMIC_SEQ_CST);

		while (__atomic_load_n(&loaders[i].rounds, __ATOMIC_SEQ_CST) <
		       now + 1 + n)
			usleep(100);
	}
}

static void test_flips(void)
{
	uint64_t late = 0, idle = 0;
	struct spf_stat s, d;
	bool bad = false;
	size_t i;

	for (i = 0; i < LOADERS; i++) {
		loaders[i].area = area_map(LOAD_PAGES * spf_page);
		if (pthread_create(&loaders[i].thread, NULL, load, &loaders[i]))
			die("pthread_create");
	}
	for (i = 0; i < FLIPS; i++) {
		set(false);
		wait_rounds(0);		/* faults that began before are over */
		spf_read(&s);
		wait_rounds(0);
		spf_delta(&s, &d);
		late += d.v[SPF_ATTEMPT] + d.v[SPF_HANDLED];
		set(true);
		spf_read(&s);
		wait_rounds(0);
		spf_delta(&s, &d);
		idle += !d.v[SPF_HANDLED];
	}
	stopping = true;
	for (i = 0; i < LOADERS; i++) {
		pthread_join(loaders[i].thread, NULL);
		bad |= loaders[i].bad;
	}
	tap_ok(!late, "flips under load: %" PRIu64 " attempts while off", late);
	tap_ok(!idle, "flips under load: no handled fault while on %" PRIu64
	       " of %d times", idle, FLIPS);
	tap_ok(!bad, "flips under load: contents");
}

int main(void)
{
	int value;

	spf_init();
	spf_no_numa_hints();
	bytes = PAGES * spf_page;
	if (spf_sysctl_get(&value)) {
		tap_plan(1);
		tap_skip("no sysctl vm.speculative_page_fault", "control");
		return tap_done();
	}
	tap_plan(TESTS);
	test_values();
	test_accounting();
	test_flips();
	set(value);
	return tap_done();
}
