// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of fault of anonymous memory that is handled speculatively, taken
 * FAULTS times in a process of two threads. See kind.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kind.h"

#define PAGES		FAULTS
#define STACK_PAGES	1000
#define TABLES		200

static uint64_t pfn[PAGES];
static size_t bytes;

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

static bool flipped_back(char *area)
{
	flip_all(area);
	return all_stamped(area, PAGES);
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

static void anon_read(void)
{
	char *area = empty_area(PAGES);

	kind_begin();
	read_all(area, PAGES);
	kind_end();
	kind_report("anonymous read", PAGES, all_zero(area, PAGES));
	area_unmap(area, bytes);
}

/* The zero page needs no anon_vma, so none is made here. */
static void anon_read_noanon(void)
{
	char *area = area_map(bytes);

	read_all(area, PAGES);
	if (madvise(area, bytes, MADV_DONTNEED))
		die("MADV_DONTNEED");
	kind_begin();
	read_all(area, PAGES);
	kind_end();
	kind_report("anonymous read, no anon_vma", PAGES, all_zero(area, PAGES));
	area_unmap(area, bytes);
}

static void anon_write(void)
{
	char *area = empty_area(PAGES);

	kind_begin();
	write_all(area, PAGES, FLIP);
	kind_end();
	kind_report("anonymous write", PAGES, zero_but_first(area, FLIP));
	area_unmap(area, bytes);
}

static void zero_to_page(void)
{
	char *area = empty_area(PAGES);

	read_all(area, PAGES);
	kind_begin();
	write_all(area, PAGES, FLIP);
	kind_end();
	kind_report("zero page to page", PAGES, zero_but_first(area, FLIP));
	area_unmap(area, bytes);
}

static void cow_copy(void)
{
	char *area = stamped_area(PAGES);
	struct twin twin;
	bool good;

	read_pfns(area, pfn);
	twin_start(&twin, area, PAGES);
	kind_begin();
	flip_all(area);
	kind_end();
	good = flipped_back(area);
	good &= twin_end(&twin);
	if (pfn[0] && same_pfns(area)) {
		tap_diag("%zu pages were not copied", same_pfns(area));
		good = false;
	}
	kind_report("COW copy", PAGES, good);
	area_unmap(area, bytes);
}

static void cow_reuse(void)
{
	char *area = stamped_area(PAGES);
	struct twin twin;
	bool good;

	read_pfns(area, pfn);
	twin_start(&twin, area, PAGES);
	good = twin_end(&twin);
	kind_warm_up();
	kind_begin();
	flip_all(area);
	kind_end();
	good &= flipped_back(area);
	if (pfn[0] && same_pfns(area) < PAGES * 99 / 100) {
		tap_diag("only %zu pages were reused", same_pfns(area));
		good = false;
	}
	kind_report("COW reuse", PAGES, good);
	area_unmap(area, bytes);
}

/*
 * mprotect() to read-only and back leaves a clean page of this process
 * write-protected; MADV_FREE is what makes it clean.
 */
static void mprotect_fixup(void)
{
	char *area = stamped_area(PAGES);

	if (madvise(area, bytes, MADV_FREE) ||
	    mprotect(area, bytes, PROT_READ) ||
	    mprotect(area, bytes, PROT_READ | PROT_WRITE))
		die("MADV_FREE, mprotect");
	kind_begin();
	flip_all(area);
	kind_end();
	kind_report("write-enable after mprotect", PAGES, flipped_back(area));
	area_unmap(area, bytes);
}

/* Clearing the soft-dirty bits write-protects every page. */
static void soft_dirty_fixup(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	char *area = stamped_area(PAGES);

	if (fd < 0 || write(fd, "4", 1) != 1)
		die("cannot write 4 to /proc/self/clear_refs");
	close(fd);
	kind_warm_up();
	kind_begin();
	flip_all(area);
	kind_end();
	if (!kind_faults()) {
		tap_skip("no CONFIG_MEM_SOFT_DIRTY", "soft-dirty: handled");
		tap_skip("no CONFIG_MEM_SOFT_DIRTY", "soft-dirty: accounted");
		tap_skip("no CONFIG_MEM_SOFT_DIRTY", "soft-dirty: memcg");
		tap_ok(flipped_back(area), "soft-dirty: contents");
	} else {
		kind_report("write-enable after soft-dirty clearing", PAGES,
			    flipped_back(area));
	}
	area_unmap(area, bytes);
}

/* Writes to pages of the stack that were used before and given back. */
static bool stack_round(char *top)
{
	bool good = true;
	size_t i;

	if (madvise(top - STACK_PAGES * spf_page, STACK_PAGES * spf_page,
		    MADV_DONTNEED))
		die("MADV_DONTNEED of the stack");
	kind_begin();
	for (i = 1; i <= STACK_PAGES; i++)
		touch_write(top - i * spf_page, FLIP);
	kind_end();
	for (i = 1; i <= STACK_PAGES; i++) {
		good &= touch_read(top - i * spf_page) == FLIP;
		touch_write(top - i * spf_page, 0);
		good &= page_is_zero(top - i * spf_page);
	}
	return good;
}

static void stack_inside(void)
{
	char *top = (char *)((uintptr_t)&top & -spf_page) - 16 * spf_page;
	bool good = true;
	size_t i;

	for (i = 1; i <= STACK_PAGES; i++)
		touch_write(top - i * spf_page, 1);
	for (i = 0; i < FAULTS; i += STACK_PAGES)
		good &= stack_round(top);
	kind_report("stack inside its bounds", FAULTS, good);
}

/* The first and the last table are there, and so are the PMD tables. */
static bool tables_round(void)
{
	size_t len = (TABLES + 2) * spf_table, i;
	char *area = area_map(len), *p;
	bool good = true;

	touch_write(area, 1);
	touch_write(area + (TABLES + 1) * spf_table, 1);
	kind_begin();
	for (i = 1; i <= TABLES; i++)
		touch_write(area + i * spf_table, FLIP);
	kind_end();
	for (i = 1; i <= TABLES; i++) {
		p = area + i * spf_table;
		good &= touch_read(p) == FLIP;
		touch_write(p, 0);
		good &= page_is_zero(p) && page_is_zero(page(p, 1));
	}
	area_unmap(area, len);
	return good;
}

static void table_missing(void)
{
	bool good = true;
	size_t i;

	for (i = 0; i < FAULTS; i += TABLES)
		good &= tables_round();
	kind_report("anonymous write, page table missing", FAULTS, good);
}

static void (*const kinds[])(void) = {
	anon_read,
	anon_read_noanon,
	anon_write,
	table_missing,
	zero_to_page,
	cow_copy,
	cow_reuse,
	mprotect_fixup,
	soft_dirty_fixup,
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
	kind_init();
	tap_plan(KIND_TESTS * ARRAY_SIZE(kinds));
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		kinds[i]();
	return tap_done();
}
