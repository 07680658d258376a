// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of fault that is handled speculatively, taken N times in a
 * process of two threads. Three tests a kind: the counters say that it was
 * handled, it was accounted once, and the memory holds what it must.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spf.h"

#define PAGES		2000
#define HANDLED_MIN(n)	((n) * 99 / 100)
/* Faults of other processes: the shell that waits for this program. */
#define FOREIGN		32
#define FLIP		0x5a

static struct spf_stat before, delta;
static struct rusage ru0, ru1;
static uint64_t pfn[PAGES];
static size_t bytes;
static char *source;		/* a stamped page, always present */

static char *page(char *area, size_t i)
{
	return area + i * spf_page;
}

static void begin(void)
{
	spf_read(&before);
	getrusage(RUSAGE_THREAD, &ru0);
}

static void end(void)
{
	getrusage(RUSAGE_THREAD, &ru1);
	spf_delta(&before, &delta);
}

/* After a fork: gives this process back what begin() and end() write to. */
static void warm_up(void)
{
	begin();
	end();
}

static void report(const char *kind, uint64_t n, bool contents)
{
	uint64_t min = ru1.ru_minflt - ru0.ru_minflt;
	uint64_t maj = ru1.ru_majflt - ru0.ru_majflt;
	bool ok = true;

	if (spf_present())
		ok = tap_ok(delta.v[SPF_HANDLED] >= HANDLED_MIN(n),
			    "%s: %" PRIu64 " of %" PRIu64 " handled", kind,
			    delta.v[SPF_HANDLED], n);
	else
		tap_skip("no speculative_pgfault in /proc/vmstat",
			 "%s: handled", kind);
	ok &= tap_ok(min == n && !maj && delta.v[SPF_PGFAULT] >= n &&
		     delta.v[SPF_PGFAULT] <= n + FOREIGN,
		     "%s: accounted once (min_flt %" PRIu64 " maj_flt %" PRIu64
		     " pgfault %" PRIu64 " for %" PRIu64 ")", kind, min, maj,
		     delta.v[SPF_PGFAULT], n);
	ok &= tap_ok(contents, "%s: contents", kind);
	if (!ok)
		spf_diag(&delta);
}

/* Page tables and anon_vma are there, no page is. */
static char *empty_area(void)
{
	char *area = area_map(bytes);
	size_t i;

	for (i = 0; i < PAGES; i++)
		touch_write(page(area, i), 1);
	if (madvise(area, bytes, MADV_DONTNEED))
		die("MADV_DONTNEED");
	return area;
}

static char *stamped_area(void)
{
	char *area = area_map(bytes);
	size_t i;

	for (i = 0; i < PAGES; i++)
		page_stamp(page(area, i), i);
	return area;
}

static void read_all(char *area)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		touch_read(page(area, i));
}

static void write_all(char *area)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		touch_write(page(area, i), FLIP);
}

/* Changes one byte of each page; flipped_back() finds only that changed. */
static void flip_all(char *area)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		*(volatile char *)page(area, i) ^= FLIP;
}

static bool zero_but_first(char *area, uint8_t first)
{
	size_t i;

	for (i = 0; i < PAGES; i++) {
		if (touch_read(page(area, i)) != first)
			return false;
		touch_write(page(area, i), 0);
		if (!page_is_zero(page(area, i)))
			return false;
	}
	return true;
}

static bool all_zero(char *area)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		if (!page_is_zero(page(area, i)))
			return false;
	return true;
}

static bool all_stamped(char *area)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		if (!page_is_stamped(page(area, i), i))
			return false;
	return true;
}

static bool flipped_back(char *area)
{
	flip_all(area);
	return all_stamped(area);
}

/* Frame numbers; zeroes without the right to see them. */
static void read_pfns(const char *area, uint64_t *pfns)
{
	off_t at = (uintptr_t)area / spf_page * sizeof(*pfns);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t i;

	memset(pfns, 0, PAGES * sizeof(*pfns));
	if (fd < 0)
		return;
	if (pread(fd, pfns, PAGES * sizeof(*pfns), at) < 0)
		die("cannot read /proc/self/pagemap");
	close(fd);
	for (i = 0; i < PAGES; i++)
		pfns[i] &= (1ULL << 55) - 1;
}

static size_t same_pfns(const char *area)
{
	static uint64_t now[PAGES];
	size_t i, n = 0;

	read_pfns(area, now);
	for (i = 0; i < PAGES; i++)
		n += now[i] == pfn[i];
	return n;
}

/*
 * A child that shares the pages of an area, takes no fault while the parent
 * counts, and checks its side at the end.
 */
struct twin {
	pid_t pid;
	int to, from;
};

static void twin_ask(struct twin *t, char c)
{
	if (write(t->to, &c, 1) != 1 || read(t->from, &c, 1) != 1)
		die("the forked child does not answer");
}

static void twin_start(struct twin *t, char *area)
{
	int down[2], up[2];
	char c;

	if (pipe(down) || pipe(up))
		die("pipe");
	t->pid = fork();
	if (t->pid < 0)
		die("fork");
	if (!t->pid) {
		close(down[1]);
		while (read(down[0], &c, 1) == 1 && c != 'q')
			if (write(up[1], &c, 1) != 1)
				_exit(1);
		_exit(!all_stamped(area));
	}
	close(down[0]);
	close(up[1]);
	t->to = down[1];
	t->from = up[0];
	/* Twice: the second time its loop has all its pages. */
	twin_ask(t, 'w');
	twin_ask(t, 'w');
	warm_up();
}

static bool twin_end(struct twin *t)
{
	int status;

	close(t->to);
	if (waitpid(t->pid, &status, 0) != t->pid)
		die("waitpid");
	close(t->from);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void anon_read(void)
{
	char *area = empty_area();

	begin();
	read_all(area);
	end();
	report("anonymous read", PAGES, all_zero(area));
	area_unmap(area, bytes);
}

/* The zero page needs no anon_vma, so none is made here. */
static void anon_read_noanon(void)
{
	char *area = area_map(bytes);

	read_all(area);
	if (madvise(area, bytes, MADV_DONTNEED))
		die("MADV_DONTNEED");
	begin();
	read_all(area);
	end();
	report("anonymous read, no anon_vma", PAGES, all_zero(area));
	area_unmap(area, bytes);
}

static void anon_write(void)
{
	char *area = empty_area();

	begin();
	write_all(area);
	end();
	report("anonymous write", PAGES, zero_but_first(area, FLIP));
	area_unmap(area, bytes);
}

static void zero_to_page(void)
{
	char *area = empty_area();

	read_all(area);
	begin();
	write_all(area);
	end();
	report("zero page to page", PAGES, zero_but_first(area, FLIP));
	area_unmap(area, bytes);
}

static void cow_copy(void)
{
	char *area = stamped_area();
	struct twin twin;
	bool good;

	read_pfns(area, pfn);
	twin_start(&twin, area);
	begin();
	flip_all(area);
	end();
	good = flipped_back(area);
	good &= twin_end(&twin);
	if (pfn[0] && same_pfns(area)) {
		tap_diag("%zu pages were not copied", same_pfns(area));
		good = false;
	}
	report("COW copy", PAGES, good);
	area_unmap(area, bytes);
}

static void cow_reuse(void)
{
	char *area = stamped_area();
	struct twin twin;
	bool good;

	read_pfns(area, pfn);
	twin_start(&twin, area);
	good = twin_end(&twin);
	warm_up();
	begin();
	flip_all(area);
	end();
	good &= flipped_back(area);
	if (pfn[0] && same_pfns(area) < HANDLED_MIN(PAGES)) {
		tap_diag("only %zu pages were reused", same_pfns(area));
		good = false;
	}
	report("COW reuse", PAGES, good);
	area_unmap(area, bytes);
}

/*
 * mprotect() to read-only and back leaves a clean page of this process
 * write-protected; MADV_FREE is what makes it clean.
 */
static void mprotect_fixup(void)
{
	char *area = stamped_area();

	if (madvise(area, bytes, MADV_FREE) ||
	    mprotect(area, bytes, PROT_READ) ||
	    mprotect(area, bytes, PROT_READ | PROT_WRITE))
		die("MADV_FREE, mprotect");
	begin();
	flip_all(area);
	end();
	report("write-enable after mprotect", PAGES, flipped_back(area));
	area_unmap(area, bytes);
}

/* Clearing the soft-dirty bits write-protects every page. */
static void soft_dirty_fixup(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	char *area = stamped_area();

	if (fd < 0 || write(fd, "4", 1) != 1)
		die("cannot write 4 to /proc/self/clear_refs");
	close(fd);
	warm_up();
	begin();
	flip_all(area);
	end();
	if (ru1.ru_minflt == ru0.ru_minflt) {
		tap_skip("no CONFIG_MEM_SOFT_DIRTY", "soft-dirty: handled");
		tap_skip("no CONFIG_MEM_SOFT_DIRTY", "soft-dirty: accounted");
		tap_ok(flipped_back(area), "soft-dirty: contents");
	} else {
		report("write-enable after soft-dirty clearing", PAGES,
		       flipped_back(area));
	}
	area_unmap(area, bytes);
}

static void kernel_zero(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	char *area = empty_area();
	ssize_t n;

	if (fd < 0)
		die("cannot open /dev/zero (mount devtmpfs on /dev first)");
	begin();
	n = read(fd, area, bytes);
	end();
	close(fd);
	report("read(2) of /dev/zero", PAGES,
	       n == (ssize_t)bytes && all_zero(area));
	area_unmap(area, bytes);
}

/* Lets the kernel write the source page over each page of the area. */
static bool pipe_fill(char *area)
{
	int fd[2];
	size_t i;

	if (pipe(fd))
		die("pipe");
	begin();
	for (i = 0; i < PAGES; i++) {
		if (write(fd[1], source, spf_page) != (ssize_t)spf_page ||
		    read(fd[0], page(area, i), spf_page) != (ssize_t)spf_page)
			break;
	}
	end();
	close(fd[0]);
	close(fd[1]);
	if (i < PAGES)
		return false;
	for (i = 0; i < PAGES; i++)
		if (memcmp(page(area, i), source, spf_page))
			return false;
	return true;
}

static void kernel_pipe(void)
{
	char *area = empty_area();
	bool good = pipe_fill(area);

	report("read(2) of a pipe", PAGES, good);
	area_unmap(area, bytes);
}

static void kernel_pipe_cow(void)
{
	char *area = stamped_area();
	struct twin twin;
	bool good;

	twin_start(&twin, area);
	good = pipe_fill(area);
	good &= twin_end(&twin);
	report("read(2) of a pipe, COW copy", PAGES, good);
	area_unmap(area, bytes);
}

/* Pages of the stack that were used once and given back. */
static void stack_inside(void)
{
	char *top = (char *)((uintptr_t)&top & -spf_page) - 16 * spf_page;
	size_t i, n = (4UL << 20) / spf_page;
	bool good = true;

	for (i = 1; i <= n; i++)
		touch_write(top - i * spf_page, 1);
	if (madvise(top - n * spf_page, n * spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED of the stack");
	begin();
	for (i = 1; i <= n; i++)
		touch_write(top - i * spf_page, FLIP);
	end();
	for (i = 1; i <= n; i++) {
		good &= touch_read(top - i * spf_page) == FLIP;
		touch_write(top - i * spf_page, 0);
		good &= page_is_zero(top - i * spf_page);
	}
	report("stack inside its bounds", n, good);
}

static void (*const kinds[])(void) = {
	anon_read,
	anon_read_noanon,
	anon_write,
	zero_to_page,
	cow_copy,
	cow_reuse,
	mprotect_fixup,
	soft_dirty_fixup,
	kernel_zero,
	kernel_pipe,
	kernel_pipe_cow,
	stack_inside,
};

int main(void)
{
	cpu_set_t one;
	size_t i;

	spf_init();
	spf_no_numa_hints();
	bytes = PAGES * spf_page;
	/* Reuse needs the page's other references on this CPU's lists. */
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("cannot run on CPU 0");
	spf_second_thread();
	source = area_map(spf_page);
	page_stamp(source, 0);
	tap_plan(3 * ARRAY_SIZE(kinds));
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		kinds[i]();
	return tap_done();
}
