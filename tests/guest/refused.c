// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of fault that is left to the classic path, taken N times in a
 * process of two threads. Two tests a kind: each attempt was refused for the
 * right reason and none was handled, and the memory holds what it must. At
 * the end, attempts - handled must be the sum of the reasons.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spf.h"

#define PAGES		256
#define TABLES		16
#define LONE_VMAS	64
/* A read fault of a file maps this much around it. */
#define FAULT_AROUND	65536UL

static struct spf_stat start, before, delta;
static size_t bytes;

static sigjmp_buf jump;
static volatile sig_atomic_t caught, code;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)context;
	caught = sig;
	code = info->si_code;
	siglongjmp(jump, 1);
}

/* The signal that an access raises, or 0. */
static int signal_of(char *p, bool write)
{
	caught = 0;
	if (!sigsetjmp(jump, 1)) {
		if (write)
			touch_write(p, 1);
		else
			touch_read(p);
	}
	return caught;
}

static char *page(char *area, size_t i)
{
	return area + i * spf_page;
}

static void begin(void)
{
	spf_read(&before);
}

static void end(void)
{
	spf_delta(&before, &delta);
}

static void report(const char *kind, enum spf_counter reason, uint64_t n,
		   bool contents)
{
	bool ok = true;

	if (spf_present())
		ok = tap_ok(!delta.v[SPF_HANDLED] && delta.v[reason] == n &&
			    delta.v[SPF_ATTEMPT] == n,
			    "%s: %" PRIu64 " of %" PRIu64 " %s", kind,
			    delta.v[reason], n, spf_name[reason]);
	else
		tap_skip("no speculative_pgfault in /proc/vmstat",
			 "%s: %s", kind, spf_name[reason]);
	ok &= tap_ok(contents, "%s: contents", kind);
	if (!ok)
		spf_diag(&delta);
}

static void skip(const char *kind, const char *why)
{
	tap_skip(why, "%s: reason", kind);
	tap_skip(why, "%s: contents", kind);
}

/* Whether n pages, each step-th, hold the byte and zeroes besides. */
static bool holds(char *area, size_t n, size_t step, uint8_t byte)
{
	size_t i;

	for (i = 0; i < n; i += step) {
		if (touch_read(page(area, i)) != byte)
			return false;
		if (memcmp(page(area, i) + 1, page(area, i) + 2, spf_page - 2) ||
		    page(area, i)[1])
			return false;
	}
	return true;
}

static void map_file_case(const char *kind, int fd, int flags, bool write)
{
	size_t step = write ? 1 : FAULT_AROUND / spf_page;
	char *anon = area_map(bytes);	/* its place has no fault-around edge */
	char *area;
	size_t i, n = 0;
	bool good = true;

	if (!step)
		step = 1;
	if (fd < 0)
		flags |= MAP_ANONYMOUS;
	area = mmap(anon, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED,
		    fd, 0);
	if (area == MAP_FAILED)
		die("mmap for %s", kind);
	begin();
	for (i = 0; i < PAGES; i += step, n++) {
		if (write)
			touch_write(page(area, i), 0xa5);
		else
			touch_read(page(area, i));
	}
	end();
	if (write)
		good = holds(area, PAGES, 1, 0xa5);
	else if (fd < 0)
		good = holds(area, PAGES, 1, 0);
	else
		for (i = 0; i < PAGES; i++)
			good &= page(area, i)[spf_page - 1] == (char)i;
	report(kind, SPF_NOTSUP, n, good);
	area_unmap(area, bytes);
}

/* A tmpfs file; for reads its pages end in their number. */
static int tmpfile_of(bool stamped)
{
	static char buf[1 << 16];
	int fd = memfd_create("refused", MFD_CLOEXEC);
	size_t i;

	if (fd < 0)
		die("memfd_create");
	for (i = 0; i < PAGES; i++) {
		memset(buf, 0, spf_page);
		if (stamped)
			buf[spf_page - 1] = i;
		if (write(fd, buf, spf_page) != (ssize_t)spf_page)
			die("write to a tmpfs file");
	}
	return fd;
}

static void shared_anon_read(void)
{
	map_file_case("shared anonymous read", -1, MAP_SHARED, false);
}

static void shared_anon_write(void)
{
	map_file_case("shared anonymous write", -1, MAP_SHARED, true);
}

static void file_read(void)
{
	int fd = tmpfile_of(true);

	map_file_case("file read", fd, MAP_PRIVATE, false);
	close(fd);
}

static void file_shared_write(void)
{
	int fd = tmpfile_of(false);

	map_file_case("shared file write", fd, MAP_SHARED, true);
	close(fd);
}

static void file_private_write(void)
{
	int fd = tmpfile_of(false);

	map_file_case("private file write", fd, MAP_PRIVATE, true);
	close(fd);
}

/* MLOCK_ONFAULT leaves the pages to be faulted in. */
static void mlocked(void)
{
	const char *kind = "mlocked VMA";
	char *area = area_map(bytes);
	size_t i;

	for (i = 0; i < PAGES; i++)
		touch_write(page(area, i), 1);
	madvise(area, bytes, MADV_DONTNEED);
	if (mlock2(area, bytes, MLOCK_ONFAULT))
		die("mlock2 (run as root)");
	begin();
	for (i = 0; i < PAGES; i++)
		touch_write(page(area, i), 7);
	end();
	report(kind, SPF_NOTSUP, PAGES, holds(area, PAGES, 1, 7));
	area_unmap(area, bytes);
}

/* VMAs of one page between inaccessible ones; the first makes the table. */
static void noanon(void)
{
	size_t len = 2 * LONE_VMAS * spf_page;
	char *area = area_map(len);
	size_t i;

	for (i = 1; i < 2 * LONE_VMAS; i += 2)
		if (mprotect(page(area, i), spf_page, PROT_NONE))
			die("mprotect");
	touch_write(area, 9);
	begin();
	for (i = 2; i < 2 * LONE_VMAS; i += 2)
		touch_write(page(area, i), 9);
	end();
	report("first write without anon_vma", SPF_NOANON, LONE_VMAS - 1,
	       holds(area, 2 * LONE_VMAS, 2, 9));
	area_unmap(area, len);
}

static void table_absent(void)
{
	size_t len = TABLES * spf_table;
	char *area = area_map(len);
	bool good = true;
	size_t i;

	touch_write(area, 3);
	begin();
	for (i = 1; i < TABLES; i++)
		touch_write(area + i * spf_table, 3);
	end();
	for (i = 0; i < TABLES; i++)
		good &= holds(area + i * spf_table, 1, 1, 3);
	report("PTE table absent", SPF_PMD_NONE, TABLES - 1, good);
	area_unmap(area, len);
}

/* n accesses that must each raise SIGSEGV of one kind. */
static bool all_segv(char *area, bool write, int want)
{
	bool good = true;
	size_t i;

	signal_of(area, write);		/* gives the handler its pages */
	begin();
	for (i = 0; i < PAGES; i++)
		good &= signal_of(page(area, i), write) == SIGSEGV &&
			code == want;
	end();
	return good;
}

static void no_access(const char *kind, int prot, bool write)
{
	char *area = area_map(bytes);
	bool good;
	size_t i;

	for (i = 0; i < PAGES; i++)
		touch_write(page(area, i), 4);
	if (mprotect(area, bytes, prot))
		die("mprotect");
	good = all_segv(area, write, SEGV_ACCERR);
	mprotect(area, bytes, PROT_READ | PROT_WRITE);
	good &= holds(area, PAGES, 1, 4);
	report(kind, SPF_ACCESS, PAGES, good);
	area_unmap(area, bytes);
}

static void prot_none_read(void)
{
	no_access("read of PROT_NONE", PROT_NONE, false);
}

static void prot_read_write(void)
{
	no_access("write to PROT_READ", PROT_READ, true);
}

static void unmapped(void)
{
	char *area = area_map(bytes);

	area_unmap(area, bytes);
	report("unmapped address", SPF_NOTFOUND, PAGES,
	       all_segv(area, true, SEGV_MAPERR));
}

/* Each write lies a page below the VMA's start, which it moves there. */
static void stack_growth(void)
{
	size_t room = 2 * PAGES * spf_page + 512 * spf_page;
	char *hole = area_map(room);
	char *top = hole + room - spf_page;
	bool good;
	size_t i;

	area_unmap(hole, room);
	if (mmap(top, spf_page, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0) != top)
		die("mmap of a stack");
	touch_write(top, 6);
	begin();
	for (i = 1; i <= PAGES; i++)
		touch_write(top - i * spf_page, 6);
	end();
	good = holds(top - PAGES * spf_page, PAGES + 1, 1, 6);
	report("stack growth", SPF_NOTFOUND, PAGES, good);
	area_unmap(top - PAGES * spf_page, (PAGES + 1) * spf_page);
}

static int uffd_open(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	return fd;
}

static char *uffd_area(int fd)
{
	char *area = area_map(bytes);
	struct uffdio_register reg = {
		.range = { (uintptr_t)area, bytes },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	size_t i;

	for (i = 0; i < PAGES; i++)
		touch_write(page(area, i), 1);
	madvise(area, bytes, MADV_DONTNEED);
	if (ioctl(fd, UFFDIO_REGISTER, &reg))
		die("UFFDIO_REGISTER");
	return area;
}

static char *uffd_source;

/* Serves PAGES missing pages, and looks at each address. */
static void *uffd_server(void *arg)
{
	int fd = *(int *)arg;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct uffdio_copy copy;
	struct uffd_msg msg;
	size_t served = 0;

	while (served < PAGES) {
		if (poll(&pfd, 1, -1) < 0)
			die("poll");
		if (read(fd, &msg, sizeof(msg)) != sizeof(msg))
			continue;
		copy = (struct uffdio_copy) {
			.dst = msg.arg.pagefault.address & -spf_page,
			.src = (uintptr_t)uffd_source,
			.len = spf_page,
		};
		if (msg.event != UFFD_EVENT_PAGEFAULT ||
		    ioctl(fd, UFFDIO_COPY, &copy))
			die("UFFDIO_COPY");
		served++;
	}
	return NULL;
}

static void uffd_missing(void)
{
	const char *kind = "userfaultfd, missing page";
	int fd = uffd_open(0);
	pthread_t server;
	char *area;
	size_t i;

	if (fd < 0) {
		skip(kind, "no userfaultfd");
		return;
	}
	area = uffd_area(fd);
	uffd_source = area_map(spf_page);
	touch_write(uffd_source, 8);
	if (pthread_create(&server, NULL, uffd_server, &fd))
		die("pthread_create");
	usleep(100000);		/* the server's own first faults are over */
	begin();
	for (i = 0; i < PAGES; i++)
		touch_read(page(area, i));
	end();
	pthread_join(server, NULL);
	/* How often a fault is tried again is the classic path's affair. */
	report(kind, SPF_NOTSUP, delta.v[SPF_ATTEMPT],
	       holds(area, PAGES, 1, 8) &&
	       (!spf_present() || delta.v[SPF_ATTEMPT] >= PAGES));
	close(fd);
	area_unmap(area, bytes);
	area_unmap(uffd_source, spf_page);
}

static void uffd_sigbus(void)
{
	const char *kind = "userfaultfd, SIGBUS";
	int fd = uffd_open(UFFD_FEATURE_SIGBUS);
	bool good = true;
	char *area;
	size_t i;

	if (fd < 0) {
		skip(kind, "no userfaultfd");
		return;
	}
	area = uffd_area(fd);
	begin();
	for (i = 0; i < PAGES; i++)
		good &= signal_of(page(area, i), i & 1) == SIGBUS;
	end();
	close(fd);
	report(kind, SPF_NOTSUP, PAGES, good && holds(area, PAGES, 1, 0));
	area_unmap(area, bytes);
}

static size_t pages_in_swap(const char *area)
{
	static uint64_t entry[PAGES];
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t i, n = 0;

	if (fd < 0 || pread(fd, entry, sizeof(entry), (uintptr_t)area /
			    spf_page * sizeof(*entry)) != sizeof(entry))
		die("cannot read /proc/self/pagemap");
	close(fd);
	for (i = 0; i < PAGES; i++)
		n += entry[i] >> 62 & 1;
	return n;
}

static void swapped(void)
{
	const char *kind = "swap entry";
	const char *device = swap_on(2 * bytes);
	bool good = true;
	size_t i, n;
	char *area;

	if (!device) {
		skip(kind, "no /dev/ram0 or /dev/zram0 to swap to");
		return;
	}
	area = area_map(bytes);
	for (i = 0; i < PAGES; i++)
		page_stamp(page(area, i), i);
	madvise(area, bytes, MADV_PAGEOUT);
	n = pages_in_swap(area);
	begin();
	for (i = 0; i < PAGES; i++)
		touch_read(page(area, i));
	end();
	for (i = 0; i < PAGES; i++)
		good &= page_is_stamped(page(area, i), i);
	tap_diag("%zu pages in swap", n);
	if (n < PAGES / 2)
		skip(kind, "the pages did not go to swap");
	else
		report(kind, SPF_PTE_NOTSUP, delta.v[SPF_ATTEMPT],
		       good && (!spf_present() ||
				delta.v[SPF_ATTEMPT] >= n / 16));
	if (swapoff(device))
		die("swapoff %s", device);
	area_unmap(area, bytes);
}

static void (*const kinds[])(void) = {
	shared_anon_read,
	shared_anon_write,
	file_read,
	file_shared_write,
	file_private_write,
	mlocked,
	noanon,
	table_absent,
	prot_none_read,
	prot_read_write,
	unmapped,
	stack_growth,
	uffd_missing,
	uffd_sigbus,
	swapped,
};

int main(void)
{
	struct sigaction sa = {
		.sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO,
	};
	size_t i;

	spf_init();
	spf_no_numa_hints();
	bytes = PAGES * spf_page;
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	spf_second_thread();
	spf_read(&start);
	tap_plan(2 * ARRAY_SIZE(kinds) + 1);
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		kinds[i]();
	spf_delta(&start, &delta);
	if (spf_present())
		tap_ok(delta.v[SPF_ATTEMPT] - delta.v[SPF_HANDLED] ==
		       spf_reasons(&delta),
		       "reasons %" PRIu64 " sum to attempts %" PRIu64
		       " - handled %" PRIu64, spf_reasons(&delta),
		       delta.v[SPF_ATTEMPT], delta.v[SPF_HANDLED]);
	else
		tap_skip("no speculative_pgfault in /proc/vmstat",
			 "reasons sum to attempts - handled");
	return tap_done();
}
