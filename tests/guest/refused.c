// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of fault that is left to the classic path, in a process of two
 * threads. Two tests a kind: each attempt was refused for the right reason and
 * none was handled, and the memory holds what it must. At the end, attempts -
 * handled must be the sum of the reasons.
 *
 * usage: refused [ROUNDS]; 200 rounds of all kinds take minutes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kvm.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spf.h"

#define FAULTS		10000	/* of each kind, if there are rounds enough */
#define PAGES		256	/* of a round, as a rule */
#define TABLES		16
#define LONE_VMAS	64
#define HUGE_PAGES	4
#define HUGE_PAGES_TEXT	"4"

static struct spf_stat start, before, delta;
static size_t bytes;
static int ext4_dir = -1;

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

static void begin(void)
{
	spf_read(&before);
}

static void end(void)
{
	spf_delta(&before, &delta);
}

/* Of all rounds of a kind. */
static struct sum {
	const char *kind, *why;		/* why: it is skipped */
	enum spf_counter reason;
	struct spf_stat stat;
	uint64_t n;
	bool contents;
} sum;

static void report(const char *kind, enum spf_counter reason, uint64_t n,
		   bool contents)
{
	int i;

	sum.kind = kind;
	sum.reason = reason;
	sum.n += n;
	sum.contents &= contents;
	for (i = 0; i < SPF_NR; i++)
		sum.stat.v[i] += delta.v[i];
}

static void skip(const char *kind, const char *why)
{
	sum.kind = kind;
	sum.why = why;
}

static void run_kind(void (*kind)(void), unsigned int rounds)
{
	const uint64_t *v = sum.stat.v;
	bool ok = true;

	sum = (struct sum){ .contents = true };
	do {
		kind();
	} while (!sum.why && sum.n < FAULTS && rounds-- > 1);
	if (sum.why) {
		tap_skip(sum.why, "%s: reason", sum.kind);
		tap_skip(sum.why, "%s: contents", sum.kind);
		return;
	}
	if (spf_present())
		ok = tap_ok(!v[SPF_HANDLED] && v[sum.reason] == sum.n &&
			    v[SPF_ATTEMPT] == sum.n,
			    "%s: %" PRIu64 " of %" PRIu64 " %s", sum.kind,
			    v[sum.reason], sum.n, spf_name[sum.reason]);
	else
		tap_skip("no speculative_pgfault in /proc/vmstat",
			 "%s: %s", sum.kind, spf_name[sum.reason]);
	ok &= tap_ok(sum.contents, "%s: contents", sum.kind);
	if (!ok)
		spf_diag(&sum.stat);
}

/* Whether n pages, each step-th, hold the byte and zeroes besides. */
static bool holds(char *area, size_t n, size_t step, uint8_t byte)
{
	size_t i;

	for (i = 0; i < n; i += step) {
		if (touch_read(page(area, i)) != byte)
			return false;
		if (memcmp(page(area, i) + 1, page(area, i) + 2,
			   spf_page - 2) || page(area, i)[1])
			return false;
	}
	return true;
}

static char *file_map(int fd, size_t len, int flags)
{
	char *area = area_map(len);

	if (mmap(area, len, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) !=
	    area)
		die("mmap of a file");
	return area;
}

static int memfd(size_t len)
{
	int fd = memfd_create("refused", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, len))
		die("memfd_create");
	return fd;
}

/* An ext4 file whose pages begin with the byte; all are clean and cached. */
static int ext4_file(uint8_t byte)
{
	int fd = openat(ext4_dir, "refused", O_RDWR | O_CREAT | O_TRUNC |
			O_CLOEXEC, 0600);
	char *area;

	if (fd < 0 || ftruncate(fd, bytes))
		die("cannot make a file on ext4");
	area = file_map(fd, bytes, MAP_SHARED);
	write_all(area, PAGES, byte);
	area_unmap(area, bytes);
	if (fsync(fd))
		die("fsync of a file on ext4");
	return fd;
}

/* Page tables, and the anon_vma of a private mapping, but no page. */
static void make_tables(char *area)
{
	write_all(area, PAGES, 1);
	if (madvise(area, bytes, MADV_DONTNEED))
		die("MADV_DONTNEED");
}

/* The page tables are there, the file is one hole. */
static char *hole(int fd, int flags)
{
	char *area = file_map(fd, bytes, flags);

	make_tables(area);
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes))
		die("cannot punch a hole into a tmpfs file");
	return area;
}

static void hole_read(void)
{
	int fd = memfd(bytes);
	char *area = hole(fd, MAP_SHARED);

	begin();
	read_all(area, PAGES);
	end();
	report("read of a hole of tmpfs", SPF_PAGE_CACHE, PAGES,
	       holds(area, PAGES, 1, 0));
	area_unmap(area, bytes);
	close(fd);
}

static void hole_write(const char *kind, int flags)
{
	int fd = memfd(bytes);
	char *area = hole(fd, flags);

	begin();
	write_all(area, PAGES, 0xa5);
	end();
	report(kind, SPF_PAGE_CACHE, PAGES, holds(area, PAGES, 1, 0xa5));
	area_unmap(area, bytes);
	close(fd);
}

static void hole_shared_write(void)
{
	hole_write("shared write of a hole of tmpfs", MAP_SHARED);
}

static void hole_private_write(void)
{
	hole_write("private write of a hole of tmpfs", MAP_PRIVATE);
}

/* MADV_RANDOM: no page is read ahead. */
static void cold_read(void)
{
	const char *kind = "read of an ext4 page that is not cached";
	char *area;
	int fd;

	if (ext4_dir < 0) {
		skip(kind, NO_EXT4);
		return;
	}
	fd = ext4_file(0x3c);
	area = file_map(fd, bytes, MAP_PRIVATE);
	make_tables(area);
	if (madvise(area, bytes, MADV_RANDOM) ||
	    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		die("cannot drop the pages of a file on ext4");
	begin();
	read_all(area, PAGES);
	end();
	report(kind, SPF_PAGE_CACHE, PAGES, holds(area, PAGES, 1, 0x3c));
	area_unmap(area, bytes);
	close(fd);
}

static void ext4_shared_write(void)
{
	const char *kind = "shared write of ext4";
	char *area;
	int fd;

	if (ext4_dir < 0) {
		skip(kind, NO_EXT4);
		return;
	}
	fd = ext4_file(0x3c);
	area = file_map(fd, bytes, MAP_SHARED);
	read_all(area, PAGES);
	if (madvise(area, bytes, MADV_DONTNEED))
		die("MADV_DONTNEED");
	begin();
	write_all(area, PAGES, 0xa5);
	end();
	report(kind, SPF_NOTSUP, PAGES, holds(area, PAGES, 1, 0xa5));
	area_unmap(area, bytes);
	close(fd);
}

/* The file has shrunk below the mapping. */
static void beyond_end(void)
{
	int fd = memfd(bytes);
	char *area = file_map(fd, bytes, MAP_SHARED);
	bool good = true;
	size_t i;

	make_tables(area);
	if (ftruncate(fd, 0))
		die("ftruncate");
	signal_of(area, false);		/* gives the handler its pages */
	begin();
	for (i = 0; i < PAGES; i++)
		good &= signal_of(page(area, i), i & 1) == SIGBUS;
	end();
	report("page beyond the end of tmpfs", SPF_PAGE_CACHE, PAGES, good);
	area_unmap(area, bytes);
	close(fd);
}

/* Their size need not be what a page table maps. */
static size_t huge_page_size(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	size_t kbytes = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f) &&
	       sscanf(line, "Hugepagesize: %zu", &kbytes) != 1)
		;
	if (f)
		fclose(f);
	return kbytes << 10;
}

/* Huge pages of their own; the administrator's number of them comes back. */
static void hugetlb(void)
{
	const char *number = "/proc/sys/vm/nr_hugepages";
	const char *kind = "hugetlb";
	size_t i, huge = huge_page_size(), len = HUGE_PAGES * huge;
	bool good = true;
	char *area = MAP_FAILED;

	if (!spf_write_file(number, HUGE_PAGES_TEXT))
		area = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE |
			    MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (area == MAP_FAILED) {
		skip(kind, "no huge pages (CONFIG_HUGETLBFS, free memory)");
		return;
	}
	begin();
	for (i = 0; i < HUGE_PAGES; i++)
		touch_write(area + i * huge, 5);
	end();
	for (i = 0; i < HUGE_PAGES; i++)
		good &= holds(area + i * huge, 1, 1, 5);
	report(kind, SPF_NOTSUP, HUGE_PAGES, good);
	area_unmap(area, len);
	spf_write_file(number, "0");
}

/* A mapping of the kernel's own, whose faults are not those of files. */
static void special(void)
{
	const char *kind = "special mapping (vdso)";
	char *vdso = (char *)getauxval(AT_SYSINFO_EHDR);
	size_t i;

	if (!vdso || madvise(vdso, spf_page, MADV_DONTNEED)) {
		skip(kind, "no vdso");
		return;
	}
	begin();
	for (i = 0; i < PAGES; i++) {
		touch_read(vdso);
		madvise(vdso, spf_page, MADV_DONTNEED);
	}
	end();
	report(kind, SPF_NOTSUP, PAGES, !memcmp(vdso, "\177ELF", 4));
}

/* From here on the process has an MMU notifier. */
static void notified_copy(void)
{
	const char *kind = "copy, with an MMU notifier";
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);
	char *area;

	if (vm < 0) {
		skip(kind, "no /dev/kvm (CONFIG_KVM), or it does not work");
		return;
	}
	area = area_map(bytes);
	make_tables(area);
	read_all(area, PAGES);
	begin();
	write_all(area, PAGES, 0xa5);
	end();
	report(kind, SPF_NOTIFIER, PAGES, holds(area, PAGES, 1, 0xa5));
	area_unmap(area, bytes);
	close(vm);
	close(kvm);
}

/*
 * Clearing the soft-dirty bits is what write-protects a page of a shared
 * mapping of tmpfs, and of all else in the process: this kind is the last.
 */
static void shared_write_protected(void)
{
	const char *kind = "write-protected page of shared tmpfs";
	int fd = memfd(bytes);
	char *area = file_map(fd, bytes, MAP_SHARED);

	write_all(area, PAGES, 1);
	if (spf_write_file("/proc/self/clear_refs", "4"))
		die("cannot write 4 to /proc/self/clear_refs");
	begin();
	end();
	begin();
	write_all(area, PAGES, 0xa5);
	end();
	if (delta.v[SPF_PGFAULT] < PAGES)
		skip(kind, "no CONFIG_MEM_SOFT_DIRTY");
	else
		report(kind, SPF_PTE_NOTSUP, PAGES,
		       holds(area, PAGES, 1, 0xa5));
	area_unmap(area, bytes);
	close(fd);
}

/* MLOCK_ONFAULT leaves the pages to be faulted in. */
static void mlocked(void)
{
	const char *kind = "mlocked VMA";
	char *area = area_map(bytes);

	make_tables(area);
	if (mlock2(area, bytes, MLOCK_ONFAULT))
		die("mlock2 (run as root)");
	begin();
	write_all(area, PAGES, 7);
	end();
	report(kind, SPF_NOTSUP, PAGES, holds(area, PAGES, 1, 7));
	area_unmap(area, bytes);
}

/* VMAs of one page between inaccessible ones; the first makes the table. */
static void lone_vmas(const char *kind, char *area, size_t len)
{
	size_t i;

	for (i = 1; i < 2 * LONE_VMAS; i += 2)
		if (mprotect(page(area, i), spf_page, PROT_NONE))
			die("mprotect");
	touch_write(area, 9);
	begin();
	for (i = 2; i < 2 * LONE_VMAS; i += 2)
		touch_write(page(area, i), 9);
	end();
	report(kind, SPF_NOANON, LONE_VMAS - 1,
	       holds(area, 2 * LONE_VMAS, 2, 9));
	area_unmap(area, len);
}

static void noanon(void)
{
	size_t len = 2 * LONE_VMAS * spf_page;

	lone_vmas("first write without anon_vma", area_map(len), len);
}

static void file_noanon(void)
{
	size_t len = 2 * LONE_VMAS * spf_page;
	int fd = memfd(len);

	lone_vmas("first write of a file without anon_vma",
		  file_map(fd, len, MAP_PRIVATE), len);
	close(fd);
}

/* The first touch makes the table of the first page, and anon_vma. */
static void no_tables(const char *kind, char *area)
{
	bool good = true;
	size_t i;

	touch_write(area, 3);
	begin();
	for (i = 1; i < TABLES; i++)
		touch_write(area + i * spf_table, 3);
	end();
	for (i = 0; i < TABLES; i++)
		good &= holds(area + i * spf_table, 1, 1, 3);
	report(kind, SPF_PMD_NONE, TABLES - 1, good);
	area_unmap(area, TABLES * spf_table);
}

/* Where the classic path maps huge pages. */
static void huge_absent(void)
{
	const char *kind = "huge page absent";
	char *area = area_map(TABLES * spf_table);

	/* Without the directory the MMU has none, whatever madvise() says. */
	if (access("/sys/kernel/mm/transparent_hugepage", F_OK) ||
	    madvise(area, TABLES * spf_table, MADV_HUGEPAGE)) {
		skip(kind, "no transparent huge pages");
		area_unmap(area, TABLES * spf_table);
		return;
	}
	no_tables(kind, area);
}

static void file_huge_absent(void)
{
	int fd = memfd(TABLES * spf_table);

	no_tables("huge page of a file absent",
		  file_map(fd, TABLES * spf_table, MAP_SHARED));
	close(fd);
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

	write_all(area, PAGES, 4);
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

/* The pages are absent: it is not the MMU that looks at the key. */
static void protection_key(void)
{
	const char *kind = "protection key";
	long key = syscall(SYS_pkey_alloc, 0UL, PKEY_DISABLE_ACCESS);
	char *area;
	bool good;

	if (key < 0) {
		skip(kind, "no protection keys");
		return;
	}
	area = area_map(bytes);
	make_tables(area);
	if (syscall(SYS_pkey_mprotect, area, bytes, PROT_READ | PROT_WRITE, key))
		die("pkey_mprotect");
	good = all_segv(area, true, SEGV_PKUERR);
	syscall(SYS_pkey_mprotect, area, bytes, PROT_READ | PROT_WRITE, 0);
	good &= holds(area, PAGES, 1, 0);
	report(kind, SPF_ACCESS, PAGES, good);
	area_unmap(area, bytes);
	syscall(SYS_pkey_free, key);
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

static void uffd_register(int fd, char *area)
{
	struct uffdio_register reg = {
		.range = { (uintptr_t)area, bytes },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (ioctl(fd, UFFDIO_REGISTER, &reg))
		die("UFFDIO_REGISTER");
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

static void uffd_served(const char *kind, char *area)
{
	int fd = uffd_open(0);
	pthread_t server;

	if (fd < 0) {
		skip(kind, "no userfaultfd");
		return;
	}
	uffd_register(fd, area);
	uffd_source = area_map(spf_page);
	touch_write(uffd_source, 8);
	if (pthread_create(&server, NULL, uffd_server, &fd))
		die("pthread_create");
	usleep(100000);		/* the server's own first faults are over */
	begin();
	read_all(area, PAGES);
	end();
	pthread_join(server, NULL);
	/* How often a fault is tried again is the classic path's affair. */
	report(kind, SPF_NOTSUP, delta.v[SPF_ATTEMPT],
	       holds(area, PAGES, 1, 8) &&
	       (!spf_present() || delta.v[SPF_ATTEMPT] >= PAGES));
	close(fd);
	area_unmap(uffd_source, spf_page);
}

static void uffd_missing(void)
{
	char *area = area_map(bytes);

	make_tables(area);
	uffd_served("userfaultfd, missing page", area);
	area_unmap(area, bytes);
}

static void uffd_hole(void)
{
	int fd = memfd(bytes);
	char *area = hole(fd, MAP_SHARED);

	uffd_served("userfaultfd, missing page of tmpfs", area);
	area_unmap(area, bytes);
	close(fd);
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
	area = area_map(bytes);
	make_tables(area);
	uffd_register(fd, area);
	begin();
	for (i = 0; i < PAGES; i++)
		good &= signal_of(page(area, i), i & 1) == SIGBUS;
	end();
	close(fd);
	report(kind, SPF_NOTSUP, PAGES, good && holds(area, PAGES, 1, 0));
	area_unmap(area, bytes);
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
	spf_no_swap_readahead();
	area = area_map(bytes);
	for (i = 0; i < PAGES; i++)
		page_stamp(page(area, i), i);
	madvise(area, bytes, MADV_PAGEOUT);
	n = pages_in_swap(area, PAGES);
	begin();
	read_all(area, PAGES);
	end();
	for (i = 0; i < PAGES; i++)
		good &= page_is_stamped(page(area, i), i);
	if (n < PAGES / 2)
		skip(kind, "the pages did not go to swap");
	else
		report(kind, SPF_PTE_NOTSUP, n, good);
	if (swapoff(device))
		die("swapoff %s", device);
	area_unmap(area, bytes);
}

static void (*const kinds[])(void) = {
	hole_read,
	hole_shared_write,
	hole_private_write,
	cold_read,
	ext4_shared_write,
	beyond_end,
	hugetlb,
	special,
	mlocked,
	noanon,
	file_noanon,
	huge_absent,
	file_huge_absent,
	prot_none_read,
	prot_read_write,
	protection_key,
	unmapped,
	stack_growth,
	uffd_missing,
	uffd_hole,
	uffd_sigbus,
	swapped,
	notified_copy,
	shared_write_protected,
};

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	struct sigaction sa = {
		.sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO,
	};
	const char *ext4;
	size_t i;

	spf_init();
	spf_no_numa_hints();
	bytes = PAGES * spf_page;
	ext4 = ext4_on();
	if (ext4)
		ext4_dir = open(ext4, O_PATH | O_DIRECTORY | O_CLOEXEC);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	spf_second_thread();
	spf_read(&start);
	tap_plan(2 * ARRAY_SIZE(kinds) + 1);
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		run_kind(kinds[i], rounds);
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
