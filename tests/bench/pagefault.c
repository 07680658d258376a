// SPDX-License-Identifier: GPL-2.0
/*
 * Loops of page faults and of what changes mappings, by N threads of one process, and
 * by N processes: what they do in a second, all together. The shapes are those that
 * will-it-scale made known: page_fault1 (anonymous memory), page_fault2 (private, of a
 * file), page_fault3 (shared), mmap1, brk1, malloc1; and fork1, which writes to memory
 * that it shares with a child. By the wall clock: under emulation only the ratio of two
 * kernels counts.
 *
 * Prints: metric value
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spf.h"

#define AREA_BYTES	(8UL << 20)
#define MALLOC_BYTES	(1UL << 20)
#define MAX_WORKERS	64

struct shape {
	const char *name;
	/* One round; returns how much it did, of what the metric counts. */
	unsigned long (*round)(int fd);
	bool threads;			/* brk() is the process's: not by threads */
};

/* In memory that processes share. */
static struct {
	bool stop;
	unsigned int ready;
	unsigned long done[MAX_WORKERS];
} *shared;

static const struct shape *shape;

static char *map(int flags, int fd)
{
	char *p = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		die("mmap of %lu bytes", AREA_BYTES);
	return p;
}

static unsigned long touch_all(char *p, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i += spf_page)
		touch_write(p + i, 1);
	return bytes / spf_page;
}

static unsigned long touch_mapping(int flags, int fd)
{
	char *p = map(flags, fd);
	unsigned long n = touch_all(p, AREA_BYTES);

	munmap(p, AREA_BYTES);
	return n;
}

static unsigned long page_fault1(int fd)
{
	(void)fd;
	return touch_mapping(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static unsigned long page_fault2(int fd)
{
	return touch_mapping(MAP_PRIVATE, fd);
}

static unsigned long page_fault3(int fd)
{
	return touch_mapping(MAP_SHARED, fd);
}

static unsigned long mmap1(int fd)
{
	(void)fd;
	munmap(map(MAP_PRIVATE | MAP_ANONYMOUS, -1), AREA_BYTES);
	return 1;
}

static unsigned long brk1(int fd)
{
	(void)fd;
	if (sbrk(spf_page) == (void *)-1 || sbrk(-(long)spf_page) == (void *)-1)
		die("sbrk");
	return 1;
}

static unsigned long malloc1(int fd)
{
	char *p = malloc(MALLOC_BYTES);

	(void)fd;
	if (!p)
		die("malloc of %lu bytes", MALLOC_BYTES);
	touch_all(p, MALLOC_BYTES);
	free(p);
	return 1;
}

static unsigned long fork1(int fd)
{
	static __thread char *area;
	int status;
	pid_t pid;

	(void)fd;
	if (!area)
		area = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	touch_all(area, AREA_BYTES);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		_exit(0);
	touch_all(area, AREA_BYTES);
	waitpid(pid, &status, 0);
	return 1;
}

static const struct shape shapes[] = {
	{ "page_fault1", page_fault1, true },
	{ "page_fault2", page_fault2, true },
	{ "page_fault3", page_fault3, true },
	{ "mmap1", mmap1, true },
	{ "brk1", brk1, false },
	{ "malloc1", malloc1, true },
	{ "fork1", fork1, true },
};

static bool stopped(void)
{
	return __atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE);
}

static void *work(void *arg)
{
	unsigned long *done = arg, n = 0;
	int fd = memfd_create("pagefault", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, AREA_BYTES))
		die("memfd_create");
	shape->round(fd);	/* its pages are there then */
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_ACQ_REL);
	while (!stopped()) {
		n += shape->round(fd);
		__atomic_store_n(done, n, __ATOMIC_RELAXED);
	}
	close(fd);
	return NULL;
}

static unsigned long total(unsigned int n)
{
	unsigned long sum = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		sum += __atomic_load_n(&shared->done[i], __ATOMIC_RELAXED);
	return sum;
}

static double rate(unsigned int n, double seconds)
{
	unsigned long before;
	uint64_t begin;

	while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) < n)
		usleep(1000);
	before = total(n);
	begin = now_ns();
	usleep(seconds * 1e6);
	return (total(n) - before) / ((now_ns() - begin) / 1e9);
}

static void measure(unsigned int n, bool threads, double seconds)
{
	pthread_t thread[MAX_WORKERS];
	pid_t pid[MAX_WORKERS];
	unsigned int i;
	double result;

	memset(shared, 0, sizeof(*shared));
	for (i = 0; i < n; i++) {
		if (threads) {
			if (pthread_create(&thread[i], NULL, work,
					   &shared->done[i]))
				die("pthread_create");
			continue;
		}
		pid[i] = fork();
		if (pid[i] < 0)
			die("fork");
		if (!pid[i]) {
			work(&shared->done[i]);
			_exit(0);
		}
	}
	result = rate(n, seconds);
	__atomic_store_n(&shared->stop, true, __ATOMIC_RELEASE);
	for (i = 0; i < n; i++) {
		if (threads)
			pthread_join(thread[i], NULL);
		else
			waitpid(pid[i], NULL, 0);
	}
	printf("%s_%s_%u\t%.0f\n", shape->name,
	       threads ? "threads" : "processes", n, result);
}

int main(int argc, char **argv)
{
	unsigned int n, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	double seconds = argc > 1 ? atof(argv[1]) : 0;
	size_t i;

	if (argc != 2 || seconds <= 0) {
		fprintf(stderr, "usage: pagefault SECONDS\n");
		return 2;
	}
	spf_init();
	mallopt(M_MMAP_THRESHOLD, MALLOC_BYTES / 2);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		shape = &shapes[i];
		for (n = 1; n <= cpus && n <= MAX_WORKERS; n *= 2) {
			if (shape->threads)
				measure(n, true, seconds);
			measure(n, false, seconds);
		}
	}
	return 0;
}
