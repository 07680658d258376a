// SPDX-License-Identifier: GPL-2.0
/*
 * Instructions an operation takes, on one emulated CPU whose clock counts
 * executed instructions (qemu -icount shift=0: 1 ns is 1 instruction).
 * Prints "operation<TAB>instructions": the median, without the timing's own
 * cost. With the sysctl off and on the same program measures both paths.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spf.h"

#define FAULTS		1000
#define CALLS		400
#define FORKS		30
#define THREADS		100
#define BATCH		50
#define AROUND		16	/* pages that a file's read fault maps */
#define TOUCHED		16	/* pages of the mapped and touched areas */
#define LOOPS		20
#define LOOP_PAGES	4096
#define TABLES		200

static uint64_t sample[FAULTS];
static size_t samples;
static uint64_t overhead;
static bool threaded;
static uint64_t t0;

static inline void start(void)
{
	t0 = now_ns();
}

static inline void stop(void)
{
	uint64_t t1 = now_ns();

	sample[samples++] = t1 - t0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(void)
{
	uint64_t m;

	qsort(sample, samples, sizeof(*sample), compare);
	m = sample[samples / 2];
	samples = 0;
	return m;
}

/* Each sample is so many operations. */
static void report_batch(const char *operation, unsigned int batch)
{
	printf("%s%s\t%" PRIu64 "\n", operation, threaded ? "_threaded" : "",
	       (median() - overhead) / batch);
}

static void report(const char *operation)
{
	report_batch(operation, 1);
}

static char *written_area(size_t pages)
{
	char *area = area_map(pages * spf_page);
	size_t i;

	for (i = 0; i < pages; i++)
		touch_write(page(area, i), 1);
	return area;
}

/* Page tables and anon_vma are there, no page is. */
static char *empty_area(size_t pages)
{
	char *area = written_area(pages);

	if (madvise(area, pages * spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED");
	return area;
}

static void time_reads(char *area, size_t step)
{
	size_t i;

	for (i = 0; i < FAULTS; i++) {
		start();
		touch_read(page(area, i * step));
		stop();
	}
}

static void time_writes(char *area)
{
	size_t i;

	for (i = 0; i < FAULTS; i++) {
		start();
		touch_write(page(area, i), 1);
		stop();
	}
}

static void anonymous(void)
{
	char *area = empty_area(FAULTS);

	time_reads(area, 1);
	report("zero_page_read");
	time_writes(area);
	report("zero_page_to_page");
	if (madvise(area, FAULTS * spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED");
	time_writes(area);
	report("anon_write");
	area_unmap(area, FAULTS * spf_page);
}

/* The child keeps its copy until told; then this process alone has them. */
static void cow(void)
{
	char *area = written_area(FAULTS);
	int down[2], status;
	pid_t child;
	char c;

	if (pipe(down))
		die("pipe");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		close(down[1]);
		_exit(read(down[0], &c, 1));
	}
	close(down[0]);
	time_writes(area);
	report("cow_copy");
	close(down[1]);
	waitpid(child, &status, 0);

	child = fork();
	if (child < 0)
		die("fork");
	if (!child)
		_exit(0);
	waitpid(child, &status, 0);
	time_writes(area);
	report("cow_reuse");
	area_unmap(area, FAULTS * spf_page);
}

/* The file's pages are in the page cache, the page tables are there. */
static char *file_area(int fd, int flags, size_t pages)
{
	char *area = area_map(pages * spf_page);
	size_t i;

	if (mmap(area, pages * spf_page, PROT_READ | PROT_WRITE,
		 flags | MAP_FIXED, fd, 0) != area)
		die("mmap of a file");
	for (i = 0; i < pages; i += spf_table / spf_page)
		touch_write(page(area, i), 1);
	if (madvise(area, pages * spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED");
	return area;
}

/* A tmpfs file whose pages are all in the page cache. */
static int cached_file(size_t pages)
{
	int fd = memfd_create("cost", MFD_CLOEXEC);
	size_t i;

	if (fd < 0 || ftruncate(fd, pages * spf_page))
		die("memfd_create");
	for (i = 0; i < pages; i++)
		if (pwrite(fd, "x", 1, i * spf_page) != 1)
			die("write to a tmpfs file");
	return fd;
}

static void files(void)
{
	size_t pages = FAULTS * AROUND;
	int fd = cached_file(pages);
	char *area;

	area = file_area(fd, MAP_SHARED, pages);
	time_reads(area, AROUND);
	report("tmpfs_read");
	area_unmap(area, pages * spf_page);

	area = file_area(fd, MAP_SHARED, FAULTS);
	time_writes(area);
	report("shmem_write");
	area_unmap(area, FAULTS * spf_page);

	area = file_area(fd, MAP_PRIVATE, FAULTS);
	time_writes(area);
	report("file_private_write");
	if (madvise(area, FAULTS * spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED");
	time_reads(area, 1);	/* not reported: one in 16 maps all */
	samples = 0;
	time_writes(area);
	report("file_mapped_write");
	area_unmap(area, FAULTS * spf_page);
	close(fd);
}

/*
 * The loops of will-it-scale's page_fault1 to 3: map, write each page, unmap;
 * instructions a page.
 */
static void fault_loop(const char *operation, int flags, int fd)
{
	struct spf_stat before, delta;
	size_t i, j;
	char *p;

	spf_read(&before);
	for (i = 0; i < LOOPS; i++) {
		start();
		p = mmap(NULL, LOOP_PAGES * spf_page, PROT_READ | PROT_WRITE,
			 flags, fd, 0);
		if (p == MAP_FAILED)
			die("mmap");
		for (j = 0; j < LOOP_PAGES; j++)
			touch_write(page(p, j), 1);
		munmap(p, LOOP_PAGES * spf_page);
		stop();
	}
	spf_delta(&before, &delta);
	report_batch(operation, LOOP_PAGES);
	printf("# %s: %" PRIu64 " of %" PRIu64 " faults handled speculatively\n",
	       operation, delta.v[SPF_HANDLED], delta.v[SPF_PGFAULT]);
}

static void fault_loops(void)
{
	int fd = cached_file(LOOP_PAGES);

	fault_loop("page_fault1", MAP_PRIVATE | MAP_ANONYMOUS, -1);
	fault_loop("page_fault2", MAP_PRIVATE, fd);
	fault_loop("page_fault3", MAP_SHARED, fd);
	close(fd);
}

/* Refused by the VMA. */
static void refused(void)
{
	char *area = empty_area(FAULTS);

	if (mlock2(area, FAULTS * spf_page, MLOCK_ONFAULT))
		die("mlock2");
	time_writes(area);
	report("locked_write");
	area_unmap(area, FAULTS * spf_page);
}

static void table_missing(void)
{
	char *area = area_map((TABLES + 1) * spf_table);
	size_t i;

	touch_write(area + TABLES * spf_table, 1);	/* anon_vma */
	for (i = 0; i < TABLES; i++) {
		start();
		touch_write(area + i * spf_table, 1);
		stop();
	}
	report("anon_write_no_table");
	area_unmap(area, (TABLES + 1) * spf_table);
}

/* Lone VMAs between inaccessible ones, their tables made by a read. */
static void noanon(void)
{
	size_t len = 2 * CALLS * spf_page, i;
	char *area = area_map(len);

	for (i = 0; i < len; i += spf_table)
		touch_read(area + i);
	if (madvise(area, len, MADV_DONTNEED))
		die("MADV_DONTNEED");
	for (i = 1; i < 2 * CALLS; i += 2)
		if (mprotect(page(area, i), spf_page, PROT_NONE))
			die("mprotect");
	for (i = 0; i < 2 * CALLS; i += 2) {
		start();
		touch_write(page(area, i), 1);
		stop();
	}
	report("anon_write_first");
	area_unmap(area, len);
}

static void kernel_read(void)
{
	char *area = empty_area(FAULTS);
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	size_t i;

	if (fd < 0)
		die("cannot open /dev/zero (mount devtmpfs on /dev first)");
	for (i = 0; i < FAULTS; i++) {
		start();
		if (read(fd, page(area, i), spf_page) != (ssize_t)spf_page)
			die("read of /dev/zero");
		stop();
	}
	report("read_fresh_page");
	close(fd);
	area_unmap(area, FAULTS * spf_page);
}

static char *map(size_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static void mappings(void)
{
	char *p;
	size_t i, j;

	for (i = 0; i < CALLS; i++) {
		start();
		p = map(TOUCHED * spf_page);
		munmap(p, TOUCHED * spf_page);
		stop();
	}
	report("mmap_munmap");
	for (i = 0; i < CALLS; i++) {
		start();
		p = map(TOUCHED * spf_page);
		for (j = 0; j < TOUCHED; j++)
			touch_write(page(p, j), 1);
		munmap(p, TOUCHED * spf_page);
		stop();
	}
	report("mmap_touch_munmap");
	for (i = 0; i < CALLS; i++) {
		start();
		if (sbrk(TOUCHED * spf_page) == (void *)-1 ||
		    sbrk(-TOUCHED * (long)spf_page) == (void *)-1)
			die("sbrk");
		stop();
	}
	report("brk_grow_shrink");
}

static void protect(void)
{
	char *area = written_area(TOUCHED);
	size_t i;

	for (i = 0; i < CALLS; i++) {
		start();
		if (mprotect(area, TOUCHED * spf_page, PROT_READ) ||
		    mprotect(area, TOUCHED * spf_page, PROT_READ | PROT_WRITE))
			die("mprotect");
		stop();
	}
	report("mprotect_flip");
	area_unmap(area, TOUCHED * spf_page);
}

/* Each page a VMA of its own. */
static char *split_area(size_t vmas)
{
	char *area = written_area(vmas);
	size_t i;

	for (i = 1; i < vmas; i += 2)
		if (mprotect(page(area, i), spf_page, PROT_READ))
			die("mprotect");
	return area;
}

/* child(): what the child does, and does not return from */
static void time_forks(size_t forks, void (*child)(void))
{
	int status;
	pid_t pid;
	size_t i;

	for (i = 0; i < forks; i++) {
		start();
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid)
			child();
		waitpid(pid, &status, 0);
		stop();
		if (status)
			die("a child ended with %d", status);
	}
}

static void leave(void)
{
	_exit(0);
}

static void run_nothing(void)
{
	execl("/proc/self/exe", "cost", "nothing", NULL);
	_exit(1);
}

static void many_vmas(size_t vmas, size_t times, const char *forked,
		      const char *unmapped)
{
	char *area = split_area(vmas);
	size_t i;

	time_forks(times, leave);
	report(forked);
	area_unmap(area, vmas * spf_page);
	for (i = 0; i < times; i++) {
		area = split_area(vmas);
		start();
		area_unmap(area, vmas * spf_page);
		stop();
	}
	report(unmapped);
}

static void processes(void)
{
	many_vmas(1000, FORKS, "fork_wait_1000_vmas", "munmap_1000_vmas");
	many_vmas(10000, 5, "fork_wait_10000_vmas", "munmap_10000_vmas");
	time_forks(FORKS, run_nothing);
	report("fork_exec_wait");
}

static void *nothing(void *arg)
{
	return arg;
}

/* In batches: the kernel's slabs make one in two or three dearer. */
static void threads(void)
{
	pthread_t thread;
	size_t i, j;

	for (i = 0; i < THREADS; i++) {
		start();
		for (j = 0; j < BATCH; j++) {
			if (pthread_create(&thread, NULL, nothing, NULL))
				die("pthread_create");
			pthread_join(thread, NULL);
		}
		stop();
	}
	report_batch("thread_create_join", BATCH);
}

static void fault_kinds(void)
{
	anonymous();
	cow();
	files();
	fault_loops();
	table_missing();
	kernel_read();
}

int main(int argc, char **argv)
{
	struct sched_param sp = { .sched_priority = 1 };
	size_t i;

	if (argc > 1 && !strcmp(argv[1], "nothing"))
		return 0;
	/* Random addresses give the VMA tree another shape in each run. */
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execv("/proc/self/exe", argv);
		die("cannot run itself again from /proc/self/exe");
	}
	/* The order in which its threads run is then always the same. */
	if (sched_setscheduler(0, SCHED_FIFO, &sp))
		die("cannot run SCHED_FIFO (run as root)");
	spf_init();
	for (i = 0; i < FAULTS; i++) {	/* its pages, and the cost of timing */
		start();
		stop();
	}
	samples = 0;
	for (i = 0; i < FAULTS; i++) {
		start();
		stop();
	}
	overhead = median();
	fault_kinds();
	refused();
	noanon();
	mappings();
	protect();
	processes();
	threads();
	spf_second_thread();
	threaded = true;
	fault_kinds();
	fflush(stdout);
	return 0;
}
