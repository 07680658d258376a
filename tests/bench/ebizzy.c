// SPDX-License-Identifier: GPL-2.0
/*
 * A load like that of a search engine: threads take a chunk of memory, copy
 * it to newly allocated memory, look for a record in it and free it. Written
 * anew with the options and the output of ebizzy 0.3, whose random numbers
 * were all zero and whose clock counted whole seconds; here -R gives sizes
 * that differ, and the rate is over the time that passed.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "spf.h"

typedef unsigned long record_t;

static struct {
	bool always_mmap;
	bool never_mmap;
	bool no_lib_memcpy;
	bool holes;
	bool permissions;
	bool random_size;
	bool touch_only;
	bool linear;
	unsigned int verbose;
	unsigned int chunks;
	size_t chunk_bytes;
	unsigned int seconds;
	unsigned int threads;
} opt = {
	.chunks = 10,
	.chunk_bytes = 65536 * sizeof(record_t),
	.seconds = 10,
};

struct worker {
	pthread_t thread;
	uint64_t rng;
	uint64_t records;
};

static record_t **chunks;
static record_t **holes;
static pthread_barrier_t barrier;
static volatile bool stopping;

static size_t mapped_bytes(size_t bytes)
{
	return bytes + (opt.permissions ? spf_page : 0);
}

/* With -p an inaccessible page at the end keeps mappings from merging. */
static record_t *alloc_mem(size_t bytes)
{
	char *p;

	if (!opt.always_mmap) {
		p = malloc(bytes);
		if (!p)
			die("malloc of %zu bytes", bytes);
		return (record_t *)p;
	}
	bytes = (bytes + spf_page - 1) & -spf_page;
	p = mmap(NULL, mapped_bytes(bytes), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("mmap of %zu bytes", bytes);
	if (opt.permissions && mprotect(p + bytes, spf_page, PROT_NONE))
		die("mprotect");
	return (record_t *)p;
}

static void free_mem(record_t *p, size_t bytes)
{
	if (!opt.always_mmap) {
		free(p);
		return;
	}
	bytes = (bytes + spf_page - 1) & -spf_page;
	if (munmap(p, mapped_bytes(bytes)))
		die("munmap");
}

static void copy_records(record_t *to, const record_t *from, size_t bytes)
{
	size_t i;

	if (!opt.no_lib_memcpy) {
		memcpy(to, from, bytes);
		return;
	}
	for (i = 0; i < bytes / sizeof(*to); i++)
		((volatile record_t *)to)[i] = from[i];
}

/* Chunks hold their records in order: 0, 1, 2, ... */
static const record_t *linear_search(record_t key, const record_t *base,
				     size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (base[i] == key)
			return base + i;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	record_t x = *(const record_t *)a, y = *(const record_t *)b;

	return x < y ? -1 : x > y;
}

static void touch_mem(record_t *p, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i += spf_page)
		touch_write((char *)p + i, 0);
}

static void one_record(struct worker *w)
{
	const record_t *src = chunks[spf_rand(&w->rng) % opt.chunks];
	size_t n = opt.chunk_bytes / sizeof(record_t);
	const record_t *hit;
	record_t *copy, key;

	if (opt.random_size)
		n = 1 + spf_rand(&w->rng) % n;
	copy = alloc_mem(n * sizeof(record_t));
	if (opt.touch_only) {
		touch_mem(copy, n * sizeof(record_t));
	} else {
		copy_records(copy, src, n * sizeof(record_t));
		key = spf_rand(&w->rng) % n;
		if (opt.linear)
			hit = linear_search(key, copy, n);
		else
			hit = bsearch(&key, copy, n, sizeof(key), compare);
		if (!hit || *hit != key)
			die("record %lu is not in its copy: memory is corrupt",
			    key);
	}
	free_mem(copy, n * sizeof(record_t));
	w->records++;
}

static void *worker_thread(void *arg)
{
	struct worker *w = arg;

	pthread_barrier_wait(&barrier);
	while (!stopping)
		one_record(w);
	return NULL;
}

static void make_chunks(void)
{
	size_t i, j;

	chunks = calloc(opt.chunks, sizeof(*chunks));
	holes = calloc(opt.chunks, sizeof(*holes));
	if (!chunks || !holes)
		die("calloc");
	for (i = 0; i < opt.chunks; i++) {
		chunks[i] = alloc_mem(opt.chunk_bytes);
		if (opt.holes)
			holes[i] = alloc_mem(spf_page);
		for (j = 0; j < opt.chunk_bytes / sizeof(record_t); j++)
			chunks[i][j] = j;
	}
	for (i = 0; opt.holes && i < opt.chunks; i++)
		free_mem(holes[i], spf_page);
}

static double seconds_of(const struct timeval *tv)
{
	return tv->tv_sec + tv->tv_usec / 1e6;
}

static void run(void)
{
	struct worker *workers = calloc(opt.threads, sizeof(*workers));
	uint64_t records = 0;
	struct rusage r0, r1;
	uint64_t start;
	double real;
	unsigned int i;

	if (!workers)
		die("calloc");
	pthread_barrier_init(&barrier, NULL, opt.threads + 1);
	for (i = 0; i < opt.threads; i++) {
		workers[i].rng = i;
		if (pthread_create(&workers[i].thread, NULL, worker_thread,
				   &workers[i]))
			die("pthread_create of thread %u", i);
	}
	getrusage(RUSAGE_SELF, &r0);
	start = now_ns();
	pthread_barrier_wait(&barrier);
	sleep(opt.seconds);
	stopping = true;
	for (i = 0; i < opt.threads; i++) {
		pthread_join(workers[i].thread, NULL);
		records += workers[i].records;
		if (opt.verbose > 1)
			printf("thread %u: %" PRIu64 " records\n", i,
			       workers[i].records);
	}
	real = (now_ns() - start) / 1e9;
	getrusage(RUSAGE_SELF, &r1);
	printf("%.0f records/s\n", records / real);
	printf("real %5.2f s\n", real);
	printf("user %5.2f s\n",
	       seconds_of(&r1.ru_utime) - seconds_of(&r0.ru_utime));
	printf("sys  %5.2f s\n",
	       seconds_of(&r1.ru_stime) - seconds_of(&r0.ru_stime));
}

static int usage(void)
{
	fprintf(stderr,
		"usage: ebizzy [options]\n"
		"-l        own copy loop instead of memcpy\n"
		"-m        always mmap\n"
		"-M        never mmap\n"
		"-n NUM    chunks (10)\n"
		"-p        keep mappings from merging by permissions\n"
		"-P        keep mappings from merging by holes\n"
		"-R        random sizes\n"
		"-s BYTES  size of a chunk (%zu)\n"
		"-S SEC    seconds to run (10)\n"
		"-t NUM    threads (twice the CPUs)\n"
		"-T        only touch the allocated pages\n"
		"-v        say more, -vv still more\n"
		"-z        linear instead of binary search\n",
		opt.chunk_bytes);
	return 1;
}

int main(int argc, char **argv)
{
	int c;

	spf_init();
	opt.threads = 2 * sysconf(_SC_NPROCESSORS_ONLN);
	while ((c = getopt(argc, argv, "lmMn:pPRs:S:t:Tvz")) != -1) {
		switch (c) {
		case 'l':
			opt.no_lib_memcpy = true;
			break;
		case 'm':
			opt.always_mmap = true;
			break;
		case 'M':
			opt.never_mmap = true;
			break;
		case 'n':
			opt.chunks = strtoul(optarg, NULL, 0);
			break;
		case 'p':
			opt.permissions = true;
			break;
		case 'P':
			opt.holes = true;
			break;
		case 'R':
			opt.random_size = true;
			break;
		case 's':
			opt.chunk_bytes = strtoul(optarg, NULL, 0);
			break;
		case 'S':
			opt.seconds = strtoul(optarg, NULL, 0);
			break;
		case 't':
			opt.threads = strtoul(optarg, NULL, 0);
			break;
		case 'T':
			opt.touch_only = true;
			break;
		case 'v':
			opt.verbose++;
			break;
		case 'z':
			opt.linear = true;
			break;
		default:
			return usage();
		}
	}
	if (optind < argc || !opt.chunks || !opt.seconds || !opt.threads ||
	    opt.chunk_bytes < sizeof(record_t) ||
	    (opt.always_mmap && opt.never_mmap))
		return usage();
	if (opt.never_mmap)
		mallopt(M_MMAP_MAX, 0);
	if (opt.verbose)
		printf("ebizzy: %u threads, %u chunks of %zu bytes, %u s\n",
		       opt.threads, opt.chunks, opt.chunk_bytes, opt.seconds);
	make_chunks();
	run();
	return 0;
}
