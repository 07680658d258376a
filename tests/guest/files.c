// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of fault of files and shared memory that is handled
 * speculatively, taken FAULTS times in a process of two threads. See
 * kind.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kind.h"

#define PAGES		FAULTS
/* A read fault maps the pages of the cache that lie in this much around it. */
#define FAULT_AROUND	65536UL
/* What each page of a file begins with: the instruction that returns. */
#ifdef __powerpc64__
#define RETURN		"\x20\x00\x80\x4e"
#else
#define RETURN		"\xc3"
#endif
#define FIRST		((uint8_t)RETURN[0])

static char *golden;		/* what the files hold */
static int tmpfs_fd, ext4_fd = -1;
static size_t bytes, around;

/* A file that holds the golden pages from some place on; they are cached. */
static int file_of(const char *dir, const char *name, off_t from)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	if (fd < 0 || pwrite(fd, golden, bytes, from) != (ssize_t)bytes ||
	    fsync(fd))
		die("cannot write %zu bytes to %s", bytes, path);
	return fd;
}

static char *map(int fd, off_t from, int prot, int flags)
{
	char *area = area_map(bytes);

	if (mmap(area, bytes, prot, flags | MAP_FIXED, fd, from) != area)
		die("mmap of a file");
	return area;
}

static char *map_private(int fd)
{
	return map(fd, 0, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static char *map_shared(int fd)
{
	return map(fd, 0, PROT_READ | PROT_WRITE, MAP_SHARED);
}

/* An object of its own, which holds the golden pages. */
static char *map_shared_anon(void)
{
	char *area = map(-1, 0, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS);

	memcpy(area, golden, bytes);
	return area;
}

static int memfd_of_golden(void)
{
	int fd = memfd_create("files", MFD_CLOEXEC);

	if (fd < 0 || pwrite(fd, golden, bytes, 0) != (ssize_t)bytes)
		die("cannot write %zu bytes to a memfd", bytes);
	return fd;
}

/* The page tables stay, and so do the pages of the file. */
static void forget(char *area)
{
	if (madvise(area, bytes, MADV_DONTNEED))
		die("MADV_DONTNEED");
}

/* Makes the page tables, and the anon_vma of a private mapping. */
static void make_tables(char *area)
{
	write_all(area, PAGES, FIRST);
	forget(area);
}

static bool page_holds(char *p, size_t i, uint8_t first)
{
	if (touch_read(p) == first &&
	    !memcmp(p + 1, page(golden, i) + 1, spf_page - 1))
		return true;
	tap_diag("page %zu holds the wrong bytes, first %02x", i,
		 touch_read(p));
	return false;
}

static bool area_holds(char *area, uint8_t first)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		if (!page_holds(page(area, i), i, first))
			return false;
	return true;
}

/* The same by read(2), which sees the file and not a mapping. */
static bool file_holds(int fd, uint8_t first)
{
	static char buf[1 << 16];
	size_t i;

	for (i = 0; i < PAGES; i++) {
		if (pread(fd, buf, spf_page, i * spf_page) !=
		    (ssize_t)spf_page)
			die("pread of page %zu", i);
		if (!page_holds(buf, i, first))
			return false;
	}
	return true;
}

static void visit_read(char *p)
{
	touch_read(p);
}

static void visit_exec(char *p)
{
	((void (*)(void))(uintptr_t)p)();
}

/* Rounds of faults that map all pages of the area, a window each. */
static void around_kind(const char *kind, char *area, void (*visit)(char *))
{
	bool good = true;
	size_t i, n;

	read_all(area, PAGES);
	for (n = 0; n < FAULTS; n += PAGES / around) {
		forget(area);
		kind_begin();
		for (i = 0; i < PAGES; i += around)
			visit(page(area, i));
		kind_end();
		good &= area_holds(area, FIRST);
	}
	kind_report(kind, n, good);
	area_unmap(area, bytes);
}

static void tmpfs_read(void)
{
	around_kind("read of tmpfs, private",
		    map(tmpfs_fd, 0, PROT_READ, MAP_PRIVATE), visit_read);
}

static void tmpfs_read_shared(void)
{
	around_kind("read of tmpfs, shared", map_shared(tmpfs_fd), visit_read);
}

static void memfd_read(void)
{
	int fd = memfd_of_golden();

	around_kind("read of memfd, shared", map_shared(fd), visit_read);
	close(fd);
}

static void shared_anon_read(void)
{
	around_kind("read of shared anonymous memory", map_shared_anon(),
		    visit_read);
}

static void ext4_read(void)
{
	const char *kind = "read of ext4";

	if (ext4_fd < 0) {
		kind_skip(kind, NO_EXT4);
		return;
	}
	around_kind(kind, map(ext4_fd, 0, PROT_READ, MAP_PRIVATE), visit_read);
}

static void file_exec(void)
{
	const char *kind = "execution of tmpfs";

	around_kind(kind, map(tmpfs_fd, 0, PROT_READ | PROT_EXEC, MAP_PRIVATE),
		    visit_exec);
}

/*
 * The mapping begins in the second page of a huge one, so that no huge page of
 * the file is at a huge page's place in memory: they are mapped page by page.
 */
static void huge_kind(const char *kind)
{
	uint64_t huge = spf_vmstat("thp_file_alloc");
	int fd = file_of("/tmp/huge", "files", spf_page);

	huge = spf_vmstat("thp_file_alloc") - huge;
	if (huge < bytes / spf_table)
		kind_skip(kind, "too little free memory in huge pages");
	else
		around_kind(kind, map(fd, spf_page, PROT_READ, MAP_PRIVATE),
			    visit_read);
	close(fd);
}

static void tmpfs_huge_read(void)
{
	const char *kind = "read of huge pages of tmpfs";
	const char *dir = "/tmp/huge";

	if (mkdir(dir, 0700) ||
	    mount("tmpfs", dir, "tmpfs", 0, "huge=always")) {
		kind_skip(kind, "no huge=always (CONFIG_TRANSPARENT_HUGEPAGE)");
		return;
	}
	huge_kind(kind);
	if (umount(dir))
		die("umount %s", dir);
}

/* After the writes the file that the area maps must begin its pages so. */
static void write_kind(const char *kind, char *area, int fd, uint8_t after)
{
	bool good;

	kind_begin();
	write_all(area, PAGES, FLIP);
	kind_end();
	good = area_holds(area, FLIP);
	if (fd >= 0)
		good &= file_holds(fd, after);
	kind_report(kind, PAGES, good);
	area_unmap(area, bytes);
}

static void private_write(const char *kind, int fd, bool read_before)
{
	char *area;

	if (fd < 0) {
		kind_skip(kind, NO_EXT4);
		return;
	}
	area = map_private(fd);
	make_tables(area);
	if (read_before)
		read_all(area, PAGES);
	write_kind(kind, area, fd, FIRST);
}

static void tmpfs_private_write(void)
{
	private_write("private write of tmpfs", tmpfs_fd, false);
}

static void ext4_private_write(void)
{
	private_write("private write of ext4", ext4_fd, false);
}

static void tmpfs_write_after_read(void)
{
	private_write("private write of tmpfs after a read", tmpfs_fd, true);
}

static void ext4_write_after_read(void)
{
	private_write("private write of ext4 after a read", ext4_fd, true);
}

static void memfd_shared_write(void)
{
	int fd = memfd_of_golden();
	char *area = map_shared(fd);

	make_tables(area);
	write_kind("shared write of memfd", area, fd, FLIP);
	close(fd);
}

static void shared_anon_write(void)
{
	char *area = map_shared_anon();

	forget(area);
	write_kind("write of shared anonymous memory", area, -1, FLIP);
}

static const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

/* Each write must move the file's mtime, which is set back in between. */
static void tmpfs_shared_write(void)
{
	const char *kind = "shared write of tmpfs";
	char *area = map_shared(tmpfs_fd);
	size_t i, moved = 0;
	struct stat st;
	bool good;

	make_tables(area);
	kind_begin();
	for (i = 0; i < PAGES; i++) {
		if (futimens(tmpfs_fd, old))
			die("futimens of a tmpfs file");
		touch_write(page(area, i), FLIP);
		if (fstat(tmpfs_fd, &st))
			die("fstat of a tmpfs file");
		moved += st.st_mtime > old[1].tv_sec;
	}
	kind_end();
	good = area_holds(area, FLIP);
	good &= file_holds(tmpfs_fd, FLIP);
	if (moved < PAGES)
		tap_diag("only %zu writes moved the mtime", moved);
	kind_report(kind, PAGES, good && moved == PAGES);
	write_all(area, PAGES, FIRST);
	area_unmap(area, bytes);
}

/* The kernel writes the pages of the tmpfs file into the area, reversed. */
static void pread_kind(const char *kind, int fd)
{
	bool good = true;
	char *area;
	size_t i;

	if (fd < 0) {
		kind_skip(kind, NO_EXT4);
		return;
	}
	area = map_private(fd);
	make_tables(area);
	kind_begin();
	for (i = 0; i < PAGES; i++)
		good &= pread(tmpfs_fd, page(area, i), spf_page,
			      (PAGES - 1 - i) * spf_page) == (ssize_t)spf_page;
	kind_end();
	for (i = 0; good && i < PAGES; i++)
		good = page_holds(page(area, i), PAGES - 1 - i, FIRST);
	kind_report(kind, PAGES, good && file_holds(fd, FIRST));
	area_unmap(area, bytes);
}

static void tmpfs_pread(void)
{
	pread_kind("pread(2) into private tmpfs", tmpfs_fd);
}

static void ext4_pread(void)
{
	pread_kind("pread(2) into private ext4", ext4_fd);
}

static void shared_read(void)
{
	char *area = map(-1, 0, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS);
	ssize_t n;

	make_tables(area);
	if (lseek(tmpfs_fd, 0, SEEK_SET))
		die("lseek of a tmpfs file");
	kind_begin();
	n = read(tmpfs_fd, area, bytes);
	kind_end();
	kind_report("read(2) into shared anonymous memory", PAGES,
		    n == (ssize_t)bytes && area_holds(area, FIRST));
	area_unmap(area, bytes);
}

static bool efault(char *to)
{
	errno = 0;
	return pread(tmpfs_fd, to, spf_page, spf_page) < 0 && errno == EFAULT;
}

/* Nothing may be written, and the call must say so. */
static void bad_address(const char *kind, char *area)
{
	bool good = true;

	make_tables(area);
	if (mprotect(area, bytes, PROT_READ))
		die("mprotect");
	tap_ok(efault(area), "read(2) into read-only %s: EFAULT", kind);
	good &= page_holds(area, 0, FIRST);
	mprotect(area, bytes, PROT_NONE);
	tap_ok(efault(area), "read(2) into PROT_NONE %s: EFAULT", kind);
	mprotect(area, bytes, PROT_READ);
	good &= page_holds(area, 0, FIRST);
	area_unmap(area, bytes);
	tap_ok(efault(area), "read(2) into unmapped %s: EFAULT", kind);
	tap_ok(good, "read(2) into bad addresses of %s: contents", kind);
}

static void bad_private(void)
{
	bad_address("tmpfs, private", map_private(tmpfs_fd));
}

static void bad_shared(void)
{
	bad_address("tmpfs, shared", map_shared(tmpfs_fd));
}

/* KIND_TESTS tests each. */
static void (*const kinds[])(void) = {
	tmpfs_read,
	tmpfs_read_shared,
	tmpfs_huge_read,
	memfd_read,
	shared_anon_read,
	ext4_read,
	file_exec,
	tmpfs_private_write,
	ext4_private_write,
	tmpfs_write_after_read,
	ext4_write_after_read,
	tmpfs_shared_write,
	memfd_shared_write,
	shared_anon_write,
	tmpfs_pread,
	ext4_pread,
	shared_read,
	bad_private,
	bad_shared,
};

int main(void)
{
	const char *ext4;
	size_t i;

	spf_init();
	spf_no_numa_hints();
	bytes = PAGES * spf_page;
	around = spf_page < FAULT_AROUND ? FAULT_AROUND / spf_page : 1;
	golden = stamped_area(PAGES);
	for (i = 0; i < PAGES; i++)
		memcpy(page(golden, i), RETURN, sizeof(RETURN) - 1);
	tmpfs_fd = file_of("/tmp", "files", 0);
	ext4 = ext4_on();
	if (ext4)
		ext4_fd = file_of(ext4, "files", 0);
	kind_init();
	tap_plan(KIND_TESTS * ARRAY_SIZE(kinds));
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		kinds[i]();
	return tap_done();
}
