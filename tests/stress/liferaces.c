// SPDX-License-Identifier: GPL-2.0
/* Races with who replaces or frees what a fault goes by. See windows.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "windows.h"

/* Of <linux/mempolicy.h>. */
#define PREFERRED	1
#define BIND		2
#define STRICT		1U
#define MOVE		2U

static int node;		/* of the last policy */
static bool moved;		/* all pages, as far as mbind() knows */

static long bind_area(int mode, int to, unsigned int flags)
{
	unsigned long mask = 1UL << to;

	return syscall(SYS_mbind, area, area_bytes(), mode, &mask,
		       8 * sizeof(mask), flags);
}

/*
 * mbind() that moves pages: what comes by the old policy, behind the walk that looks
 * for pages to be moved, stays on the old node.
 */
static const char *mbind_setup(void)
{
	take_area(MAX_FAULTS + BALLAST);
	if (!bind_area(BIND, 1, 0))
		return NULL;
	drop_area();
	return "no second node (numa=fake=2)";
}

static void mbind_prepare(void)
{
	forget(area, pages);
	populate(page(area, MAX_FAULTS), BALLAST, MADV_POPULATE_WRITE);
}

/* A page that somebody else holds for a moment cannot be moved: EIO. */
static void mbind_race(void)
{
	node = !node;
	moved = !bind_area(BIND, node, MOVE | STRICT);
	if (!moved && errno != EIO)
		die("mbind");
}

static bool mbind_holds(void)
{
	void *at[MAX_FAULTS];
	int status[MAX_FAULTS];
	size_t i;

	if (!moved)
		return true;
	for (i = 0; i < MAX_FAULTS; i++)
		at[i] = page(area, i);
	if (syscall(SYS_move_pages, 0, MAX_FAULTS, at, NULL, status, 0))
		die("move_pages");
	for (i = 0; touched(i); i++) {
		if (status[i] < 0 || status[i] == node)
			continue;
		tap_diag("page %zu is on node %d, not %d", i, status[i], node);
		return false;
	}
	return true;
}

const struct window mbind_window = {
	.name = "mbind",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = mbind_setup,
	.prepare = mbind_prepare,
	.fault = store_in_area,
	.race = mbind_race,
	.holds = mbind_holds,
	.finish = drop_area,
};

static bool stores_in_area_found(void)
{
	return stores_found(area);
}

/* mbind() frees the old policy, by which a fault may be about to allocate: for KASAN. */
static const char *policy_setup(void)
{
	take_area(MAX_FAULTS);
	if (!bind_area(BIND, 0, 0))
		return NULL;
	drop_area();
	return "no mbind() (CONFIG_NUMA)";
}

static void policy_race(void)
{
	static int mode = BIND;

	mode = mode == BIND ? PREFERRED : BIND;
	if (bind_area(mode, 0, 0))
		die("mbind");
}

const struct window policy_window = {
	.name = "policy",
	.step = STEP_COPIED,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = policy_setup,
	.prepare = forget_area,
	.fault = store_in_area,
	.race = policy_race,
	.holds = stores_in_area_found,
	.finish = drop_area,
};

/*
 * munmap() frees page tables, and their locks, which faults that have walked to them are
 * about to take: for KASAN, where locks are allocated by themselves.  The first read of a
 * page takes the lock without another look at the VMA.
 */
static const char *tables_setup(void)
{
	pages = FEW_PAGES * (spf_table / spf_page);
	area = arena_take(area_bytes());
	return NULL;
}

static void tables_prepare(void)
{
	size_t i;

	map_pages(area, pages);
	for (i = 0; i < FEW_PAGES; i++)
		populate(of_table(i) + spf_page, 1, MADV_POPULATE_WRITE);
}

static bool tables_fault(size_t i)
{
	uint64_t value;

	return i < FEW_PAGES && try_load(of_table(i), &value);
}

static bool tables_hold(void)
{
	uint64_t value;
	size_t i;

	map_pages(area, pages);
	for (i = 0; i < FEW_PAGES; i++)
		if (!try_load(of_table(i), &value) ||
		    !found("mapped afresh", i, value, 0))
			return false;
	return true;
}

const struct window tables_window = {
	.name = "tables",
	.step = STEP_COPIED,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = tables_setup,
	.prepare = tables_prepare,
	.fault = tables_fault,
	.race = drop_area,
	.holds = tables_hold,
	.finish = drop_area,
};
