// SPDX-License-Identifier: GPL-2.0
/* Races with who changes the VMA, or moves its pages. See windows.h. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "windows.h"

/* mprotect(): who found the VMA writable must not make the PTE writable after. */
static void mprotect_prepare(void)
{
	protect(area, pages, RW);
	forget(area, pages);
}

static void mprotect_race(void)
{
	protect(area, pages, PROT_READ);
}

static bool area_refuses_stores(void)
{
	return stores_refused(area);
}

const struct window mprotect_window = {
	.name = "mprotect",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = take_small_area,
	.prepare = mprotect_prepare,
	.fault = store_in_area,
	.race = mprotect_race,
	.holds = area_refuses_stores,
	.finish = drop_area,
};

/*
 * The same where the first pages go to the VMA before them, which can be read
 * only: the one that they are taken from changes in nothing but its bounds.
 */
static char *bounds_pages(void)
{
	return page(area, 4);
}

static const char *bounds_setup(void)
{
	take_area(4 + 2 * MAX_FAULTS);
	protect(area, 4, PROT_READ);
	return NULL;
}

static void bounds_prepare(void)
{
	protect(bounds_pages(), MAX_FAULTS, RW);
	forget(area, pages);
}

static bool bounds_fault(size_t i)
{
	return store_at(bounds_pages(), i);
}

static void bounds_race(void)
{
	protect(bounds_pages(), MAX_FAULTS, PROT_READ);
}

static bool bounds_hold(void)
{
	return stores_refused(bounds_pages());
}

const struct window bounds_window = {
	.name = "bounds",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = bounds_setup,
	.prepare = bounds_prepare,
	.fault = bounds_fault,
	.race = bounds_race,
	.holds = bounds_hold,
	.finish = drop_area,
};

/*
 * munmap() of a VMA whose first page table stays, as its neighbour uses it, too.
 * What is mapped there next must be empty.
 */
static char *unmapped(void)
{
	return page(area, 1);
}

static void map_again(void)
{
	map_pages(unmapped(), pages - 1);
}

static const char *munmap_setup(void)
{
	take_area(1 + MAX_FAULTS + BALLAST);
	protect(area, 1, PROT_READ);
	return NULL;
}

static void munmap_prepare(void)
{
	map_again();
	populate(page(unmapped(), MAX_FAULTS), BALLAST, MADV_POPULATE_WRITE);
}

static bool munmap_fault(size_t i)
{
	return store_at(unmapped(), i);
}

static void munmap_race(void)
{
	area_unmap(unmapped(), (pages - 1) * spf_page);
}

static bool munmap_holds(void)
{
	uint64_t value;
	size_t i;

	map_again();
	for (i = 0; touched(i); i++)
		if (!try_load(page(unmapped(), i), &value) ||
		    !found("mapped afresh", i, value, 0))
			return false;
	return true;
}

const struct window munmap_window = {
	.name = "munmap",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = munmap_setup,
	.prepare = munmap_prepare,
	.fault = munmap_fault,
	.race = munmap_race,
	.holds = munmap_holds,
	.finish = drop_area,
};

/*
 * munmap() of page after page below tables that are missing.  The PMD table goes
 * with them, and must not leave with a PTE table in it.
 */
static uint64_t tables_before;

/* Bytes of page tables, of this process. */
static uint64_t table_bytes(void)
{
	char line[128];
	uint64_t kb;
	FILE *f = fopen("/proc/self/status", "r");

	if (!f)
		die("fopen of /proc/self/status");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPTE: %" SCNu64 " kB", &kb) == 1) {
			fclose(f);
			return kb << 10;
		}
	die("no VmPTE in /proc/self/status");
}

static char *first_below_table(size_t i)
{
	return area + (i + 1) * spf_table;
}

static const char *pmddrain_setup(void)
{
	pages = (FEW_PAGES + 1) * (spf_table / spf_page);
	area = arena_take(area_bytes());
	table_bytes();
	return NULL;
}

/* The first page is for an anon_vma. */
static void pmddrain_prepare(void)
{
	tables_before = table_bytes();
	map_pages(area, pages);
	populate(area, 1, MADV_POPULATE_WRITE);
}

static bool pmddrain_fault(size_t i)
{
	return i < FEW_PAGES && try_store(first_below_table(i), fault_value(i));
}

static bool pmddrain_holds(void)
{
	const uint64_t after = table_bytes();

	if (after <= tables_before)
		return true;
	tap_diag("%" PRIu64 " bytes of page tables are left",
		 after - tables_before);
	return false;
}

const struct window pmddrain_window = {
	.name = "pmddrain",
	.step = STEP_TABLE,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = pmddrain_setup,
	.prepare = pmddrain_prepare,
	.fault = pmddrain_fault,
	.race = drop_area,
	.holds = pmddrain_holds,
	.finish = drop_area,
};

/* mremap(), PTE by PTE: what was stored must have come along. */
static char *moved;

static const char *mremap_setup(void)
{
	take_area(MAX_FAULTS + BALLAST);
	moved = arena_take(area_bytes() + spf_page) + spf_page;
	populate(page(area, MAX_FAULTS), BALLAST, MADV_POPULATE_WRITE);
	move(area, moved);
	return NULL;
}

static void mremap_prepare(void)
{
	move(moved, area);
	forget(area, MAX_FAULTS);
}

static void mremap_race(void)
{
	move(area, moved);
}

static bool mremap_holds(void)
{
	return stores_found(moved);
}

static void mremap_finish(void)
{
	area_unmap(moved, area_bytes());
}

const struct window mremap_window = {
	.name = "mremap",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = mremap_setup,
	.prepare = mremap_prepare,
	.fault = store_in_area,
	.race = mremap_race,
	.holds = mremap_holds,
	.finish = mremap_finish,
};

/*
 * mremap() of a whole page table, which holds zero pages. A fault that replaces
 * one in the moved table flushes the TLB at the old address: a CPU that has
 * already read the new one never sees what is stored there.
 */
static const char *movedrain_setup(void)
{
	take_area(spf_table / spf_page);
	moved = arena_take(area_bytes());
	move(area, moved);
	return NULL;
}

static void movedrain_prepare(void)
{
	move(moved, area);
	forget(area, MAX_FAULTS);
	populate(area, MAX_FAULTS, MADV_POPULATE_READ);
}

static bool movedrain_fault(size_t i)
{
	return store_in_area(i) || store_at(moved, i);
}

static void movedrain_race(void)
{
	move(area, moved);
	read_all(moved, MAX_FAULTS);
}

const struct window movedrain_window = {
	.name = "movedrain",
	.step = STEP_LOCKED,
	.us = 4000,
	.met = SPF_CHANGED,
	.setup = movedrain_setup,
	.prepare = movedrain_prepare,
	.fault = movedrain_fault,
	.race = movedrain_race,
	.holds = mremap_holds,
	.finish = mremap_finish,
};
