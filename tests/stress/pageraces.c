// SPDX-License-Identifier: GPL-2.0
/* Races with who wants to know of each page. See windows.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "windows.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define PFN_BITS	55
#define PRESENT		(1ULL << 63)	/* in pagemap */
#define KPF_MLOCKED	33		/* in kpageflags */

/*
 * Two threads that copy the same page: the second must see the first. Each page has
 * a table of its own, for with a PTE of its table locked it would not be copied.
 */
static const char *ptesame_setup(void)
{
	size_t i;

	pages = FEW_PAGES * (spf_table / spf_page);
	area = arena_take(area_bytes());
	map_pages(area, pages);
	for (i = 0; i < FEW_PAGES; i++)
		populate(of_table(i), 1, MADV_POPULATE_WRITE);
	return NULL;
}

static void ptesame_prepare(void)
{
	size_t i;

	for (i = 0; i < FEW_PAGES; i++) {
		forget(of_table(i), 1);
		populate(of_table(i), 1, MADV_POPULATE_READ);
	}
}

static bool ptesame_fault(size_t i)
{
	return i < FEW_PAGES && try_store(of_table(i), fault_value(i));
}

static char *second_word(size_t i)
{
	return of_table(i) + sizeof(uint64_t);
}

static void ptesame_race(void)
{
	size_t i;

	for (i = 0; i < FEW_PAGES; i++)
		try_store(second_word(i), fault_value(i));
}

static bool ptesame_holds(void)
{
	uint64_t value;
	size_t i;

	for (i = 0; i < FEW_PAGES; i++) {
		if (i < faults_done && (!try_load(of_table(i), &value) ||
		    !found("first store", i, value, fault_value(i))))
			return false;
		if (!try_load(second_word(i), &value) ||
		    !found("second store", i, value, fault_value(i)))
			return false;
	}
	return true;
}

/* One fault for each page, but for those on which they met. */
const struct window ptesame_window = {
	.name = "ptesame",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_HANDLED,
	.above = FEW_PAGES,
	.setup = ptesame_setup,
	.prepare = ptesame_prepare,
	.fault = ptesame_fault,
	.race = ptesame_race,
	.holds = ptesame_holds,
	.finish = drop_area,
};

static int fd, pagemap, kpageflags;

static uint64_t entry_of(int map, uint64_t at)
{
	uint64_t entry;

	if (pread(map, &entry, sizeof(entry), at * sizeof(entry)) !=
	    sizeof(entry))
		die("pread of an entry for a page");
	return entry;
}

static uint64_t pagemap_of(int map, char *at)
{
	return entry_of(map, (uintptr_t)at / spf_page);
}

static int proc_open(const char *path)
{
	int map = open(path, O_RDONLY | O_CLOEXEC);

	if (map < 0)
		die("cannot open %s", path);
	return map;
}

/*
 * mlock(): afterwards each page is locked. It makes them present from the first
 * on, and the faults come from the last.
 */
static const char *mlock_setup(void)
{
	take_area(MAX_FAULTS + BALLAST);
	pagemap = proc_open("/proc/self/pagemap");
	kpageflags = proc_open("/proc/kpageflags");
	return NULL;
}

static char *locked_page(size_t i)
{
	return page(area, pages - 1 - i);
}

static void mlock_prepare(void)
{
	if (munlock(area, area_bytes()))
		die("munlock");
	forget(area, pages);
}

static bool mlock_fault(size_t i)
{
	return try_store(locked_page(i), fault_value(i));
}

static void mlock_race(void)
{
	if (mlock(area, area_bytes()))
		die("mlock");
}

static bool mlock_holds(void)
{
	uint64_t entry, pfn;
	size_t i;

	for (i = 0; touched(i); i++) {
		entry = pagemap_of(pagemap, locked_page(i));
		pfn = entry & ((1ULL << PFN_BITS) - 1);
		if (entry & PRESENT &&
		    entry_of(kpageflags, pfn) >> KPF_MLOCKED & 1)
			continue;
		tap_diag("the %zu-th page from the end is not locked: pagemap %016"
			 PRIx64, i, entry);
		return false;
	}
	return true;
}

static void mlock_finish(void)
{
	close(pagemap);
	close(kpageflags);
	drop_area();
}

const struct window mlock_window = {
	.name = "mlock",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = mlock_setup,
	.prepare = mlock_prepare,
	.fault = mlock_fault,
	.race = mlock_race,
	.holds = mlock_holds,
	.finish = mlock_finish,
};

/*
 * UFFDIO_REGISTER: what is absent afterwards stays so until there was an event,
 * for which the faulting thread waits.
 */
static uint64_t uffd_map[MAX_FAULTS];
static size_t uffd_event;	/* the page that it is about */

static const char *uffd_setup(void)
{
	struct uffdio_api api = { .api = UFFD_API };

	fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		return "no userfaultfd (CONFIG_USERFAULTFD)";
	pagemap = proc_open("/proc/self/pagemap");
	return take_small_area();
}

/* False once the faults have ended without. */
static bool uffd_wait(void)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct uffd_msg msg;
	bool ended;

	do {
		ended = faults_ended();
		if (poll(&p, 1, 1) < 0)
			die("poll of a userfaultfd");
		if (read(fd, &msg, sizeof(msg)) == sizeof(msg)) {
			uffd_event = (msg.arg.pagefault.address -
				      (uintptr_t)area) / spf_page;
			return true;
		}
	} while (!ended);
	return false;
}

static void uffd_race(void)
{
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)area, .len = area_bytes() },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (ioctl(fd, UFFDIO_REGISTER, &reg))
		die("UFFDIO_REGISTER");
	if (pread(pagemap, uffd_map, sizeof(uffd_map),
		  (uintptr_t)area / spf_page * sizeof(*uffd_map)) !=
	    sizeof(uffd_map))
		die("pread of pagemap");
	faults_stop();
	if (!uffd_wait())
		uffd_event = faults_done;
	/* Who waits for an answer goes on without. */
	if (ioctl(fd, UFFDIO_UNREGISTER, &reg.range))
		die("UFFDIO_UNREGISTER");
}

static bool uffd_holds(void)
{
	size_t i;

	for (i = 0; i < uffd_event; i++) {
		if (uffd_map[i] & PRESENT)
			continue;
		tap_diag("page %zu came without an event", i);
		return false;
	}
	return true;
}

static void uffd_finish(void)
{
	close(pagemap);
	close(fd);
	drop_area();
}

const struct window uffd_window = {
	.name = "uffd",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = uffd_setup,
	.prepare = forget_area,
	.fault = store_in_area,
	.race = uffd_race,
	.holds = uffd_holds,
	.finish = uffd_finish,
};

/*
 * MADV_COLLAPSE: the page table is put by, and must be empty, for it is used
 * when the huge page is split, which a change of rights brings about.
 */
static const char *collapse_setup(void)
{
	pages = spf_table / spf_page;
	area = arena_take(area_bytes());
	map_at(area, area_bytes(), RW);
	populate(page(area, MAX_FAULTS), 1, MADV_POPULATE_WRITE);
	if (madvise(area, area_bytes(), MADV_COLLAPSE)) {
		area_unmap(area, area_bytes());
		return "no MADV_COLLAPSE (CONFIG_TRANSPARENT_HUGEPAGE)";
	}
	return NULL;
}

static void collapse_prepare(void)
{
	forget(area, pages);
	populate(page(area, MAX_FAULTS), 1, MADV_POPULATE_WRITE);
}

/* A page that is on its way to the LRU lists would let the collapse fail. */
static bool collapse_fault(size_t i)
{
	if (!store_in_area(i))
		return false;
	forget(page(area, i), 1);
	return true;
}

/* A failed one is no error; that none met the faults shows in the end. */
static void collapse_race(void)
{
	madvise(area, area_bytes(), MADV_COLLAPSE);
}

static bool collapse_holds(void)
{
	uint64_t value;
	size_t i;

	protect(page(area, MAX_FAULTS), 1, PROT_READ);
	protect(page(area, MAX_FAULTS), 1, RW);
	for (i = 0; i < faults_done; i++)
		if (!try_load(page(area, i), &value) ||
		    !found("after it was dropped", i, value, 0))
			return false;
	return true;
}

const struct window collapse_window = {
	.name = "collapse",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_CHANGED,
	.setup = collapse_setup,
	.prepare = collapse_prepare,
	.fault = collapse_fault,
	.race = collapse_race,
	.holds = collapse_holds,
	.finish = drop_area,
};

/* Truncation: a private copy of the page goes with it. */
static const char *truncate_setup(void)
{
	take_area(FEW_PAGES);
	fd = memfd_create("windows", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, area_bytes()) ||
	    mmap(area, area_bytes(), RW, MAP_PRIVATE | MAP_FIXED, fd, 0) !=
	    area)
		die("cannot map a memfd");
	populate(area, pages, MADV_POPULATE_WRITE);
	return NULL;
}

static void truncate_prepare(void)
{
	static const char byte = 1;
	size_t i;

	if (ftruncate(fd, 0) || ftruncate(fd, area_bytes()))
		die("ftruncate of a memfd");
	for (i = 0; i < pages; i++)
		if (pwrite(fd, &byte, 1, i * spf_page) != 1)
			die("pwrite to a memfd");
}

static void truncate_race(void)
{
	if (ftruncate(fd, 0))
		die("ftruncate of a memfd");
}

static bool truncate_holds(void)
{
	uint64_t value;
	size_t i;

	for (i = 0; i < FEW_PAGES; i++) {
		if (!try_load(page(area, i), &value))
			continue;
		tap_diag("page %zu, beyond the end, holds %016" PRIx64, i,
			 value);
		return false;
	}
	return true;
}

static void truncate_finish(void)
{
	close(fd);
	drop_area();
}

/* It marks nothing: it is met by the page that it took away. */
const struct window truncate_window = {
	.name = "truncate",
	.step = STEP_READY,
	.us = 1000,
	.met = SPF_PAGE_CACHE,
	.setup = truncate_setup,
	.prepare = truncate_prepare,
	.fault = store_in_few,
	.race = truncate_race,
	.holds = truncate_holds,
	.finish = truncate_finish,
};
