// SPDX-License-Identifier: GPL-2.0
/*
 * How long a page fault waits for mmap_lock, measured so that the load of the
 * host cannot touch it: one emulated CPU whose clock counts instructions
 * (qemu -icount shift=0), a real-time thread that wakes at odd moments and
 * takes one fault a wake, and a normal thread that holds mmap_lock in turn.
 * The real-time thread preempts the other at once, so only a lock can make it
 * wait; a voluntary context switch during the access says that it did.
 *
 * Prints: fault holder n mean_us p50_us p99_us max_us blocked_per_1000
 * and: distribution fault holder, and what 0, 5, 10... 100 % took at most, in us
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spf.h"

#define HELD_BYTES	(256UL << 20)
#define ROOM_BYTES	(4UL << 30)	/* above it, more than any area needs */
#define MAX_FAULTS	1000

/*
 * All that the real-time thread writes to, its stack too. A fork leaves it
 * out, so it is never write-protected: only the fault under test can wait.
 */
struct probe {
	char stack[65536];
	uint64_t sample[MAX_FAULTS];
	uint64_t blocked;
	uint64_t rng;
	const struct fault *fault;
	char *area;
};

static size_t faults = 400;
static struct probe *probe;
static char *held;		/* the memory that the holder works on */
static char *room;		/* reserved, above that */
static int zero_fd;
static volatile bool stop;

/* A row of anon_notable maps more than the guest has memory. */
static void allow_overcommit(void)
{
	int fd = open("/proc/sys/vm/overcommit_memory", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "1", 1) != 1)
		die("cannot set vm.overcommit_memory=1 (run as root)");
	close(fd);
}

static void odd_sleep(void)
{
	uint64_t ns = 200000 + spf_rand(&probe->rng) % 10000000;
	struct timespec ts = { .tv_nsec = ns };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}

/* Holders: one operation each, called again and again until told to stop. */
static void hold_none(void)
{
	usleep(1000);
}

static void hold_mprotect(void)
{
	if (mprotect(held, HELD_BYTES, PROT_READ) ||
	    mprotect(held, HELD_BYTES, PROT_READ | PROT_WRITE))
		die("mprotect of %lu bytes", HELD_BYTES);
}

static void touch_held(void)
{
	size_t i;

	for (i = 0; i < HELD_BYTES; i += spf_page)
		touch_write(held + i, 1);
}

/* Touched again, as each fork write-protects what is writable. */
static void hold_fork(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		_exit(0);
	waitpid(pid, &status, 0);
	touch_held();
}

static void hold_mapfixed(void)
{
	if (mmap(held, HELD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_FIXED, -1, 0) != held)
		die("mmap of %lu bytes", HELD_BYTES);
	madvise(held, HELD_BYTES, MADV_NOHUGEPAGE);
	touch_held();
}

static void hold_munmap(void)
{
	munmap(held, HELD_BYTES);
	hold_mapfixed();
}

/*
 * fork copies upwards, and a fault waits from when its VMA is copied. So where
 * the area lies decides how long: above the held memory, but for fork_first.
 */
static const struct holder {
	const char *name;
	void (*op)(void);
	bool area_below;
} holders[] = {
	{ .name = "none", .op = hold_none },
	{ .name = "mprotect", .op = hold_mprotect },
	{ .name = "fork", .op = hold_fork },
	{ .name = "fork_first", .op = hold_fork, .area_below = true },
	{ .name = "mapfixed", .op = hold_mapfixed },
	{ .name = "munmap", .op = hold_munmap },
};

static void room_reserve(size_t bytes)
{
	room = mmap(room, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		    MAP_NORESERVE | (room ? MAP_FIXED : 0), -1, 0);
	if (room == MAP_FAILED)
		die("mmap of %zu bytes", bytes);
}

static void *holder_thread(void *arg)
{
	const struct holder *h = arg;

	while (!stop)
		h->op();
	return NULL;
}

/* Faults: an area of one page a fault, step bytes apart, and one to spare. */
static char *anon_area(size_t step)
{
	char *area = area_map((faults + 1) * step);
	size_t i;

	touch_write(area + faults * step, 1);	/* anon_vma */
	if (step != spf_page)
		return area;
	for (i = 0; i < faults; i++)
		touch_write(area + i * step, 1);
	if (madvise(area, faults * step, MADV_DONTNEED))
		die("MADV_DONTNEED");
	return area;
}

/* The pages of a tmpfs file, all in the page cache, none mapped. */
static char *file_area(size_t step, int flags)
{
	size_t bytes = (faults + 1) * step, i;
	char *area = area_map(bytes);
	int fd = memfd_create("latency", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, bytes))
		die("memfd_create");
	for (i = 0; i < bytes; i += spf_page)
		if (pwrite(fd, "x", 1, i) != 1)
			die("write to a tmpfs file");
	if (mmap(area, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd,
		 0) != area)
		die("mmap of a file");
	close(fd);
	for (i = 0; i < bytes; i += spf_table)
		touch_write(area + i, 1);
	if (madvise(area, bytes, MADV_DONTNEED))
		die("MADV_DONTNEED");
	return area;
}

static char *shared_area(size_t step)
{
	return file_area(step, MAP_SHARED);
}

static char *private_area(size_t step)
{
	return file_area(step, MAP_PRIVATE);
}

static void do_read(char *p)
{
	touch_read(p);
}

static void do_write(char *p)
{
	touch_write(p, 1);
}

static void do_kread(char *p)
{
	if (read(zero_fd, p, 8) != 8)
		die("read of /dev/zero");
}

static const struct fault {
	const char *name;
	size_t step;		/* 0: a page, 1: a PTE table, else bytes */
	char *(*prepare)(size_t step);
	void (*access)(char *p);
} kinds[] = {
	{ "anon", 0, anon_area, do_write },
	{ "anon_notable", 1, anon_area, do_write },
	{ "kread", 0, anon_area, do_kread },
	{ "file", 65536, shared_area, do_read },
	{ "file_cow", 0, private_area, do_write },
	{ "shm_write", 0, shared_area, do_write },
};

static size_t step_of(const struct fault *f)
{
	if (!f->step)
		return spf_page;
	return f->step == 1 ? spf_table : f->step;
}

static void *fault_thread(void *arg)
{
	struct probe *p = arg;
	size_t step = step_of(p->fault), i;
	struct sched_param sp = { .sched_priority = 10 };
	struct rusage r0, r1;
	uint64_t t0, t1;

	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &sp))
		die("cannot run SCHED_FIFO (run as root)");
	p->fault->access(p->area + faults * step);	/* the code is there */
	now_ns();
	for (i = 0; i < faults; i++) {
		odd_sleep();
		getrusage(RUSAGE_THREAD, &r0);
		t0 = now_ns();
		p->fault->access(p->area + i * step);
		t1 = now_ns();
		getrusage(RUSAGE_THREAD, &r1);
		p->sample[i] = t1 - t0;
		p->blocked += r1.ru_nvcsw - r0.ru_nvcsw;
		if (r1.ru_minflt != r0.ru_minflt + 1)
			die("access %zu of %s took %ld faults", i,
			    p->fault->name, r1.ru_minflt - r0.ru_minflt);
	}
	return NULL;
}

static struct probe *new_probe(void)
{
	struct probe *p = (struct probe *)area_map(sizeof(*p));

	memset(p, 0, sizeof(*p));
	if (madvise(p, sizeof(*p), MADV_DONTFORK))
		die("MADV_DONTFORK");
	return p;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void measure(const struct fault *f, const struct holder *h)
{
	pthread_t faulter, holder;
	pthread_attr_t attr;
	uint64_t *sample = probe->sample, sum = 0;
	size_t step = step_of(f), bytes = (faults + 1) * step, i;

	probe->fault = f;
	probe->area = f->prepare(step);
	if (probe->area > held)
		die("mmap() does not work top-down");
	if (!h->area_below) {
		probe->area = mremap(probe->area, bytes, bytes, MREMAP_MAYMOVE |
				     MREMAP_FIXED, room);
		if (probe->area == MAP_FAILED)
			die("mremap of %zu bytes", bytes);
	}
	probe->blocked = 0;
	stop = false;
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, probe->stack, sizeof(probe->stack)) ||
	    pthread_create(&holder, NULL, holder_thread, (void *)h) ||
	    pthread_create(&faulter, &attr, fault_thread, probe))
		die("pthread_create");
	pthread_join(faulter, NULL);
	stop = true;
	pthread_join(holder, NULL);
	pthread_attr_destroy(&attr);
	area_unmap(probe->area, bytes);
	if (!h->area_below)
		room_reserve(bytes);

	qsort(sample, faults, sizeof(*sample), compare);
	for (i = 0; i < faults; i++)
		sum += sample[i];
	printf("%s\t%s\t%zu\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n", f->name, h->name,
	       faults, sum / 1e3 / faults, sample[faults / 2] / 1e3,
	       sample[faults * 99 / 100] / 1e3, sample[faults - 1] / 1e3,
	       probe->blocked * 1e3 / faults);
	printf("distribution\t%s\t%s", f->name, h->name);
	for (i = 0; i <= 20; i++)
		printf("\t%.1f", sample[(faults - 1) * i / 20] / 1e3);
	printf("\n");
}

/* Is the name in the comma-separated list, or is there no list? */
static bool chosen(const char *list, const char *name)
{
	size_t len = strlen(name);
	const char *p = list;

	if (!list)
		return true;
	while ((p = strstr(p, name))) {
		if ((p == list || p[-1] == ',') && (!p[len] || p[len] == ','))
			return true;
		p += len;
	}
	return false;
}

int main(int argc, char **argv)
{
	const char *want_faults = NULL, *want_holders = NULL;
	cpu_set_t one;
	size_t f, h;
	int opt;

	while ((opt = getopt(argc, argv, "f:H:n:")) != -1) {
		switch (opt) {
		case 'f':
			want_faults = optarg;
			break;
		case 'H':
			want_holders = optarg;
			break;
		case 'n':
			faults = strtoul(optarg, NULL, 0);
			break;
		default:
			goto usage;
		}
	}
	if (optind < argc || !faults || faults > MAX_FAULTS)
		goto usage;

	spf_init();
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("cannot run on CPU 0");
	zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (zero_fd < 0)
		die("cannot open /dev/zero (mount devtmpfs on /dev first)");
	allow_overcommit();
	/* munmap() keeps the lock when a stack follows what it unmaps. */
	if (mmap(NULL, spf_page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0) == MAP_FAILED)
		die("mmap");
	probe = new_probe();
	room_reserve(ROOM_BYTES);
	room += -(uintptr_t)room & (spf_table - 1);
	held = area_map(HELD_BYTES);
	touch_held();
	for (h = 0; h < ARRAY_SIZE(holders); h++) {
		if (!chosen(want_holders, holders[h].name))
			continue;
		for (f = 0; f < ARRAY_SIZE(kinds); f++)
			if (chosen(want_faults, kinds[f].name))
				measure(&kinds[f], &holders[h]);
	}
	return 0;
usage:
	fprintf(stderr, "usage: latency [-f faults] [-H holders] [-n N (1-%d)]\n",
		MAX_FAULTS);
	return 2;
}
