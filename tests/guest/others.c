// SPDX-License-Identifier: GPL-2.0
/*
 * Faults on pages that are in memory but not accessible: NUMA hints of pages of
 * this CPU's node, and swapped pages that another process has read back.
 * FAULTS of each in a process of two threads. See kind.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/swap.h>
#include <time.h>
#include <unistd.h>

#include "kind.h"

#define HINT_SECONDS	90
/* Less than half of the swap space, or pages leave the swap cache early. */
#define SWAP_PAGES	2500
/* Hints taken while the counters are read, and those of other processes. */
#define HINTS_OFF	32
#define SCAN		"/sys/kernel/debug/sched/numa_balancing/"

static uint8_t first[FAULTS];	/* byte of each page */

/* Lets the scanner come as soon, as often and as far as it ever does. */
static bool scan_eagerly(void)
{
	/* Fails where it is mounted already: good. */
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	return !spf_write_file("/proc/sys/kernel/numa_balancing", "1") &&
	       !spf_write_file(SCAN "scan_delay_ms", "1") &&
	       !spf_write_file(SCAN "scan_period_min_ms", "10") &&
	       !spf_write_file(SCAN "scan_period_max_ms", "100") &&
	       !spf_write_file(SCAN "scan_size_mb", "64");
}

/* Reads and writes the area until the scanner has made FAULTS hints. */
static uint64_t take_hints(char *area)
{
	uint64_t start = spf_vmstat("numa_hint_faults"), hints = 0;
	time_t end = time(NULL) + HINT_SECONDS;
	size_t i;

	while (hints < FAULTS && time(NULL) < end) {
		for (i = 0; i < FAULTS; i += 2) {
			touch_read(page(area, i));
			touch_write(page(area, i + 1), first[i + 1]);
		}
		hints = spf_vmstat("numa_hint_faults") - start;
	}
	return hints;
}

static void hints(void)
{
	const char *kind = "NUMA hint of this node";
	uint64_t local = spf_vmstat("numa_hint_faults_local");
	uint64_t faults, counted;
	char *area;
	size_t i;

	if (!scan_eagerly()) {
		kind_skip(kind,
			  "no " SCAN " (CONFIG_NUMA_BALANCING, SCHED_DEBUG)");
		return;
	}
	area = stamped_area(FAULTS);
	for (i = 0; i < FAULTS; i++)
		first[i] = touch_read(page(area, i));
	kind_begin();
	counted = take_hints(area);
	kind_end();
	spf_no_numa_hints();
	local = spf_vmstat("numa_hint_faults_local") - local;
	faults = kind_faults();
	tap_diag("numa_hint_faults %" PRIu64 " local %" PRIu64 " min_flt %"
		 PRIu64, counted, local, faults);
	if (counted < FAULTS)
		kind_skip(kind, "too few hints in time (run it alone)");
	else
		kind_report(kind, faults, all_stamped(area, FAULTS) &&
			    counted + HINTS_OFF >= faults &&
			    counted <= faults + HINTS_OFF);
	area_unmap(area, FAULTS * spf_page);
}

/*
 * Changes the first byte of each page, or changes it back.  Without a look at the
 * page: an atomic operation would read it first on some machines, with a fault.
 */
static void flip_all(char *area, size_t n, uint8_t change)
{
	size_t i;

	for (i = 0; i < n; i++)
		touch_write(page(area, i), first[i] ^ change);
}

/* The child reads back what was paged out, and so the parent finds it. */
static bool swap_round(size_t *swapped, bool write)
{
	size_t bytes = SWAP_PAGES * spf_page;
	char *area = stamped_area(SWAP_PAGES);
	struct twin twin;
	bool good;
	size_t i;

	for (i = 0; i < SWAP_PAGES; i++)
		first[i] = touch_read(page(area, i));
	if (madvise(area, bytes, MADV_PAGEOUT))
		die("MADV_PAGEOUT");
	*swapped += pages_in_swap(area, SWAP_PAGES);
	twin_start(&twin, area, SWAP_PAGES);
	good = twin_verify(&twin);
	kind_begin();
	if (write)
		flip_all(area, SWAP_PAGES, 1);
	else
		read_all(area, SWAP_PAGES);
	kind_end();
	if (write)
		flip_all(area, SWAP_PAGES, 0);
	good &= all_stamped(area, SWAP_PAGES);
	good &= twin_end(&twin);
	area_unmap(area, bytes);
	return good;
}

static void swap_cache(const char *kind, bool write)
{
	const char *device = swap_on(2 * SWAP_PAGES * spf_page);
	size_t swapped = 0, pages;
	bool good = true;

	if (!device) {
		kind_skip(kind, "no /dev/ram0 or /dev/zram0 to swap to");
		return;
	}
	spf_no_swap_readahead();
	for (pages = 0; swapped < FAULTS && pages < 2 * FAULTS;
	     pages += SWAP_PAGES)
		good &= swap_round(&swapped, write);
	if (swapped < FAULTS)
		kind_skip(kind, "the pages did not go to swap");
	else
		kind_report(kind, swapped, good);
	if (swapoff(device))
		die("swapoff %s", device);
}

int main(void)
{
	cpu_set_t one;

	/*
	 * First, so that all memory is of one node; and MADV_PAGEOUT drains
	 * only this CPU's lists.
	 */
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("cannot run on CPU 0");
	spf_init();
	spf_no_numa_hints();
	kind_init();
	tap_plan(3 * KIND_TESTS);
	hints();
	swap_cache("read of a page in the swap cache", false);
	swap_cache("write of a page in the swap cache", true);
	return tap_done();
}
