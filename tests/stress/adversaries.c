// SPDX-License-Identifier: GPL-2.0
/* The adversaries that change VMAs and page tables. See stress.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stress.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA		0x53564d41
#define PR_SET_VMA_ANON_NAME	0
#endif

#define RW	(PROT_READ | PROT_WRITE)

struct range {
	char *start;
	size_t bytes;
};

static void must(int ret, const struct adversary *a, const char *what)
{
	if (ret)
		die("%s: %s", a->name, what);
}

/* Some pages of the region, never none. */
static struct range part_of(struct adversary *a, int side)
{
	struct region *r = a->r;
	uint64_t rnd = spf_rand(&a->rng);
	size_t first = rnd % r->pages;
	size_t count = 1 + (rnd >> 16) % (r->pages - first);

	return (struct range){ page_at(r, side, first), count * r->step };
}

static void pause_in_state(struct adversary *a)
{
	pause_random(&a->rng, 300);
}

/* Nothing may be stored meanwhile; owners may discard, which leaves zero. */
static void hold_still(struct adversary *a, int side)
{
	struct region *r = a->r;
	uint64_t seen[MAX_PAGES][2];
	size_t i, j;

	for (i = 0; i < r->pages; i++)
		for (j = 0; j < 2; j++)
			seen[i][j] = *word_at(page_at(r, side, i),
					      j * (WORDS - 1));
	pause_in_state(a);
	for (i = 0; i < r->pages; i++)
		for (j = 0; j < 2; j++) {
			volatile uint64_t *at = word_at(page_at(r, side, i),
							j * (WORDS - 1));
			uint64_t v = *at;

			if (v && v != seen[i][j])
				data_error(a->name, (void *)at, seen[i][j], v,
					   "read-only page changed");
		}
}

static void all_words(struct adversary *a, int side, uint64_t want,
		      const char *what)
{
	struct region *r = a->r;
	size_t i, j;

	for (i = 0; i < r->pages; i++)
		for (j = 0; j < WORDS; j++) {
			volatile uint64_t *at = word_at(page_at(r, side, i), j);
			uint64_t v = *at;

			if (v != want)
				data_error(a->name, (void *)at, want, v, what);
		}
}

/* The region is mapped read-only, and has been given no page since. */
static void expect_zeroes(struct adversary *a, int side)
{
	set_state(a->r, side, ZEROED);
	all_words(a, side, 0, "new page is not zero");
	pause_in_state(a);
	all_words(a, side, 0, "store landed in a new page");
	set_state(a->r, side, MOVING);
}

static void reopen(struct adversary *a, int side)
{
	must(mprotect(a->r->base[side], region_bytes(a->r), RW), a, "mprotect");
	set_state(a->r, side, OPEN);
}

/* mprotect() of all pages: contents stay, stores fault until it is undone. */
static void protect_all(struct adversary *a, int side)
{
	struct region *r = a->r;
	bool none = spf_rand(&a->rng) & 1;

	set_state(r, side, MOVING);
	must(mprotect(r->base[side], region_bytes(r),
		      none ? PROT_NONE : PROT_READ), a, "mprotect");
	set_state(r, side, none ? GONE : READONLY);
	if (none)
		pause_in_state(a);
	else
		hold_still(a, side);
	set_state(r, side, MOVING);
	reopen(a, side);
}

static void protect_part(struct adversary *a)
{
	struct range p = part_of(a, 0);

	set_state(a->r, 0, MOVING);
	must(mprotect(p.start, p.bytes, PROT_READ), a, "mprotect");
	pause_in_state(a);
	reopen(a, 0);
}

static bool protect_setup(struct adversary *a)
{
	a->r = region_new(a->name, 32, spf_page);
	return true;
}

static void protect_op(struct adversary *a)
{
	if (spf_rand(&a->rng) & 1)
		protect_all(a, 0);
	else
		protect_part(a);
}

/* Read-only, then emptied: what is stored later shows as not zero. */
static void protect_emptied(struct adversary *a, int side)
{
	struct region *r = a->r;

	set_state(r, side, MOVING);
	madvise(r->base[side], region_bytes(r), MADV_DONTNEED);
	must(mprotect(r->base[side], region_bytes(r), PROT_READ), a,
	     "mprotect");
	must(madvise(r->base[side], region_bytes(r), MADV_DONTNEED), a,
	     "MADV_DONTNEED");
	expect_zeroes(a, side);
	reopen(a, side);
}

static void unmap_and_map(struct adversary *a, int side)
{
	struct region *r = a->r;

	set_state(r, side, MOVING);
	must(munmap(r->base[side], region_bytes(r)), a, "munmap");
	set_state(r, side, GONE);
	pause_in_state(a);
	set_state(r, side, MOVING);
	map_at(r->base[side], region_bytes(r), PROT_READ);
	expect_zeroes(a, side);
	reopen(a, side);
}

static void map_over(struct adversary *a, int side)
{
	set_state(a->r, side, MOVING);
	map_at(a->r->base[side], region_bytes(a->r), PROT_READ);
	expect_zeroes(a, side);
	reopen(a, side);
}

static int fill_fd = -1;

/* A file takes the region's place: an anonymous page there is a leak. */
static void file_over(struct adversary *a, int side)
{
	struct region *r = a->r;

	set_state(r, side, MOVING);
	if (mmap(r->base[side], region_bytes(r), PROT_READ, MAP_PRIVATE |
		 MAP_FIXED, fill_fd, 0) != r->base[side])
		die("mmap of a file");
	set_state(r, side, FILLED);
	all_words(a, side, FILL, "not the file's contents");
	pause_in_state(a);
	all_words(a, side, FILL, "not the file's contents");
	set_state(r, side, MOVING);
	map_at(r->base[side], region_bytes(r), RW);
	set_state(r, side, OPEN);
}

static void replace_with(struct adversary *a, unsigned int how, int side)
{
	switch (how) {
	case 0:
		unmap_and_map(a, side);
		break;
	case 1:
		map_over(a, side);
		break;
	case 2:
		file_over(a, side);
		break;
	default:	/* open at once: owners must find their words or zero */
		set_state(a->r, side, MOVING);
		map_at(a->r->base[side], region_bytes(a->r), RW);
		set_state(a->r, side, OPEN);
	}
}

static void make_fill_file(size_t bytes)
{
	static uint64_t words[8192];
	size_t i;

	if (fill_fd >= 0)
		return;
	for (i = 0; i < ARRAY_SIZE(words); i++)
		words[i] = FILL;
	fill_fd = memfd_create("fill", MFD_CLOEXEC);
	if (fill_fd < 0)
		die("memfd_create");
	for (i = 0; i < bytes; i += sizeof(words))
		if (write(fill_fd, words, sizeof(words)) != sizeof(words))
			die("write to a memfd");
}

static struct region *lossy_region(struct adversary *a, size_t pages)
{
	struct region *r = region_new(a->name, pages, spf_page);

	r->lossy = true;
	r->filled = true;
	make_fill_file(MAX_PAGES * spf_page);
	return r;
}

static bool replace_setup(struct adversary *a)
{
	a->r = lossy_region(a, 32);
	return true;
}

static void replace_op(struct adversary *a)
{
	replace_with(a, spf_rand(&a->rng) & 3, 0);
}

/* The region moves to its other place, all at once. */
static void move_all(struct adversary *a)
{
	struct region *r = a->r;
	int from = (r->state[0] & 7) != OPEN, to = !from;

	set_state(r, from, MOVING);
	set_state(r, to, MOVING);
	if (mremap(r->base[from], region_bytes(r), region_bytes(r),
		   MREMAP_MAYMOVE | MREMAP_FIXED, r->base[to]) != r->base[to])
		die("%s: mremap", a->name);
	set_state(r, from, GONE);
	set_state(r, to, OPEN);
}

/* Some pages go and come back; what lies there meanwhile may not change. */
static void move_part(struct adversary *a)
{
	struct region *r = a->r;
	int from = (r->state[0] & 7) != OPEN, to = !from;
	struct range p = part_of(a, from);
	char *there = p.start + (r->base[to] - r->base[from]);
	bool twice = spf_rand(&a->rng) & 1;

	set_state(r, from, MOVING);
	set_state(r, to, MOVING);
	if (mremap(p.start, p.bytes, p.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		   there) != there)
		die("%s: mremap", a->name);
	if (twice)
		pause_in_state(a);
	if (mremap(there, p.bytes, p.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		   p.start) != p.start)
		die("%s: mremap back", a->name);
	set_state(r, to, GONE);
	set_state(r, from, OPEN);
}

static void give_other_place(struct region *r)
{
	r->base[1] = arena_take(region_bytes(r));
	set_state(r, 1, GONE);
}

/*
 * mremap() wants one VMA. Parts that got anon_vmas of their own while they were
 * apart would not merge again, so they all get the one of the whole.
 */
static bool move_setup(struct adversary *a)
{
	a->r = region_new(a->name, 32, spf_page);
	touch_write(a->r->base[0], 0);
	give_other_place(a->r);
	return true;
}

/* Two PTE tables, which move as they are. */
static bool movepmd_setup(struct adversary *a)
{
	a->r = region_new(a->name, MAX_PAGES, 2 * spf_table / MAX_PAGES);
	give_other_place(a->r);
	return true;
}

/* A PMD page, which moves as it is. */
static bool movepud_setup(struct adversary *a)
{
	a->r = region_new(a->name, MAX_PAGES, (1UL << 30) / MAX_PAGES);
	give_other_place(a->r);
	return true;
}

static void move_op(struct adversary *a)
{
	if (spf_rand(&a->rng) & 1)
		move_all(a);
	else
		move_part(a);
	pause_in_state(a);
}

static void movepmd_op(struct adversary *a)
{
	move_all(a);
	pause_in_state(a);
}

/*
 * Everything at which a fault that began before could end wrongly, in a
 * region emptied just before so that faults are under way.
 */
static bool ptevalid_setup(struct adversary *a)
{
	a->r = lossy_region(a, 8);
	give_other_place(a->r);
	return true;
}

/* The same beside a mapping that keeps the page table from being freed. */
static bool ptevalid2_setup(struct adversary *a)
{
	char *at;

	a->r = lossy_region(a, 8);
	give_other_place(a->r);
	for (int side = 0; side < 2; side++) {
		at = a->r->base[side] + spf_table - spf_page;
		map_at(at, spf_page, RW);
		touch_write(at, 1);
	}
	return true;
}

static void ptevalid_op(struct adversary *a)
{
	unsigned int how = spf_rand(&a->rng) % 8;
	int side = (a->r->state[0] & 7) != OPEN;

	madvise(a->r->base[side], region_bytes(a->r), MADV_DONTNEED);
	if (how < 4)
		replace_with(a, how, side);
	else if (how == 4)
		protect_all(a, side);
	else if (how == 5)
		protect_emptied(a, side);
	else
		move_all(a);
}

/* Neighbours of the same kind come and go: the region's VMA grows, shrinks. */
static bool neighbour_setup(struct adversary *a)
{
	size_t bytes = MAX_PAGES * spf_page;
	char *at = arena_take(3 * bytes);

	a->r = region_new(a->name, MAX_PAGES, spf_page);
	munmap(a->r->base[0], bytes);
	a->r->base[0] = at + bytes;
	map_at(at, 3 * bytes, RW);
	madvise(at, 3 * bytes, MADV_NOHUGEPAGE);
	return true;
}

static void neighbour_op(struct adversary *a)
{
	struct range p = part_of(a, 0);
	uint64_t rnd = spf_rand(&a->rng);
	size_t bytes = region_bytes(a->r);

	p.start += rnd & 1 ? bytes : -bytes;
	switch (rnd >> 1 & 3) {
	case 0:
		must(munmap(p.start, p.bytes), a, "munmap");
		break;
	case 1:
		mprotect(p.start, p.bytes, rnd & 8 ? PROT_NONE : PROT_READ);
		break;
	default:
		map_at(p.start, p.bytes, RW);
		madvise(p.start, p.bytes, MADV_NOHUGEPAGE);
		touch_write(p.start, 1);
	}
}

static bool discard_setup(struct adversary *a)
{
	a->r = region_new(a->name, 32, spf_page);
	a->r->lossy = true;
	return true;
}

static void discard_op(struct adversary *a)
{
	struct range p = part_of(a, 0);

	must(madvise(p.start, p.bytes, spf_rand(&a->rng) & 1 ?
		     MADV_DONTNEED : MADV_FREE), a, "madvise");
}

static bool huge_setup(struct adversary *a)
{
	a->r = region_new(a->name, MAX_PAGES, 2 * spf_table / MAX_PAGES);
	return !madvise(a->r->base[0], region_bytes(a->r), MADV_HUGEPAGE);
}

static void huge_op(struct adversary *a)
{
	char *at = a->r->base[0];
	size_t bytes = region_bytes(a->r);

	switch (spf_rand(&a->rng) % 3) {
	case 0:
		must(madvise(at, bytes, MADV_HUGEPAGE), a, "MADV_HUGEPAGE");
		break;
	case 1:
		must(madvise(at, bytes, MADV_NOHUGEPAGE), a,
		     "MADV_NOHUGEPAGE");
		break;
	default:
		madvise(at, bytes, MADV_COLLAPSE);	/* may be out of memory */
	}
}

static bool lock_setup(struct adversary *a)
{
	a->r = region_new(a->name, 32, spf_page);
	return true;
}

/* Until munlock() every page stays: owners cannot discard locked ones. */
static void lock_op(struct adversary *a)
{
	struct range p = part_of(a, 0);
	unsigned char there[MAX_PAGES];
	size_t i;

	if (spf_rand(&a->rng) & 1) {
		must(mlock2(p.start, p.bytes, MLOCK_ONFAULT), a, "mlock2");
	} else {
		must(mlock(p.start, p.bytes), a, "mlock");
		pause_in_state(a);
		must(mincore(p.start, p.bytes, there), a, "mincore");
		for (i = 0; i < p.bytes / spf_page; i++)
			if (!(there[i] & 1))
				data_error(a->name, p.start + i * spf_page, 1,
					   0, "locked page is absent");
	}
	pause_in_state(a);
	must(munlock(p.start, p.bytes), a, "munlock");
}

static int clear_refs_fd = -1;

static bool softdirty_setup(struct adversary *a)
{
	(void)a;
	clear_refs_fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	return clear_refs_fd >= 0 && write(clear_refs_fd, "4", 1) == 1;
}

static void softdirty_op(struct adversary *a)
{
	must(write(clear_refs_fd, "4", 1) != 1, a, "write to clear_refs");
	usleep(REST_US);
}

static int uffd = -1;

static bool uffd_setup(struct adversary *a)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_SIGBUS,
	};

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api))
		return false;
	a->r = region_new(a->name, 32, spf_page);
	return true;
}

/* While it is registered, no absent page may come. */
static void uffd_op(struct adversary *a)
{
	struct region *r = a->r;
	struct uffdio_register reg = {
		.range = { (uintptr_t)r->base[0], region_bytes(r) },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	unsigned char first[MAX_PAGES], then[MAX_PAGES];
	size_t i;

	set_state(r, 0, MOVING);
	must(ioctl(uffd, UFFDIO_REGISTER, &reg), a, "UFFDIO_REGISTER");
	set_state(r, 0, GUARDED);
	must(mincore(r->base[0], region_bytes(r), first), a, "mincore");
	pause_in_state(a);
	must(mincore(r->base[0], region_bytes(r), then), a, "mincore");
	for (i = 0; i < r->pages; i++)
		if (!(first[i] & 1) && then[i] & 1)
			data_error(a->name, page_at(r, 0, i), 0, 1,
				   "page came past userfaultfd");
	set_state(r, 0, MOVING);
	must(ioctl(uffd, UFFDIO_UNREGISTER, &reg.range), a,
	     "UFFDIO_UNREGISTER");
	set_state(r, 0, OPEN);
}

/* Names split and merge the VMA. */
static void name_part(struct adversary *a, const char *name)
{
	struct range p = part_of(a, 0);

	if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p.start, p.bytes, name))
		die("%s: PR_SET_VMA_ANON_NAME", a->name);
}

static bool name_setup(struct adversary *a)
{
	a->r = region_new(a->name, 32, spf_page);
	return !prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, a->r->base[0],
		      region_bytes(a->r), "none");
}

static void name_op(struct adversary *a)
{
	static const char *const names[] = { "one", "two", NULL };

	name_part(a, names[spf_rand(&a->rng) % ARRAY_SIZE(names)]);
}

static long bind_to_node_0(struct range p, int mode, unsigned int flags)
{
	unsigned long nodes = mode ? 1 : 0;

	return syscall(SYS_mbind, p.start, p.bytes, mode, mode ? &nodes : NULL,
		       mode ? 8 * sizeof(nodes) : 0UL, flags);
}

static bool policy_setup(struct adversary *a)
{
	a->r = region_new(a->name, 32, spf_page);
	return !bind_to_node_0(part_of(a, 0), 0, 0);
}

/* MPOL_DEFAULT, _PREFERRED, _BIND, _INTERLEAVE; MPOL_MF_MOVE is 2. */
static void policy_op(struct adversary *a)
{
	uint64_t rnd = spf_rand(&a->rng);

	must(bind_to_node_0(part_of(a, 0), rnd & 3, rnd >> 2 & 2), a, "mbind");
}

/* The heap's end; malloc() is kept away from it. */
static bool brk_setup(struct adversary *a)
{
	char *end = sbrk(0);

	a->r = region_new(a->name, 16, spf_page);
	munmap(a->r->base[0], region_bytes(a->r));
	end = (char *)(((uintptr_t)end + spf_page - 1) & -spf_page);
	if (brk(end + region_bytes(a->r)))
		return false;
	a->r->base[0] = end;
	a->r->lossy = true;
	return true;
}

static void brk_op(struct adversary *a)
{
	char *at = a->r->base[0];

	set_state(a->r, 0, MOVING);
	must(brk(at), a, "brk");
	set_state(a->r, 0, GONE);
	pause_in_state(a);
	set_state(a->r, 0, MOVING);
	must(brk(at + region_bytes(a->r)), a, "brk");
	set_state(a->r, 0, OPEN);
	pause_in_state(a);
}

/* Pages go to swap, and come back. */
static const char *swap_device;

static bool swap_setup(struct adversary *a)
{
	swap_device = swap_on(4 * MAX_PAGES * spf_page);
	if (!swap_device)
		return false;
	a->r = region_new(a->name, MAX_PAGES, spf_page);
	return true;
}

static void swap_op(struct adversary *a)
{
	struct range p = part_of(a, 0);

	madvise(p.start, p.bytes, MADV_PAGEOUT);	/* as far as it can */
}

static void swap_finish(struct adversary *a)
{
	if (swapoff(swap_device))
		die("%s: swapoff %s", a->name, swap_device);
}

/*
 * Equal pages, which KSM makes one; each write must copy that. They are this
 * thread's alone.
 */
#define KSM_PAGES	32

static char *same;
static uint64_t same_value[KSM_PAGES];

static void set_file(const char *name, const char *value)
{
	int fd = open(name, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die("cannot write %s to %s", value, name);
	close(fd);
}

static bool ksm_setup(struct adversary *a)
{
	size_t bytes = KSM_PAGES * spf_page, i;

	(void)a;
	same = arena_take(bytes);
	map_at(same, bytes, RW);
	if (madvise(same, bytes, MADV_MERGEABLE))
		return false;
	for (i = 0; i < KSM_PAGES; i++)
		*word_at(same + i * spf_page, 0) = same_value[i] = FILL;
	set_file("/sys/kernel/mm/ksm/pages_to_scan", "1000");
	set_file("/sys/kernel/mm/ksm/sleep_millisecs", "1");
	set_file("/sys/kernel/mm/ksm/run", "1");
	return true;
}

static void ksm_op(struct adversary *a)
{
	uint64_t rnd = spf_rand(&a->rng);
	size_t i;

	for (i = 0; i < KSM_PAGES; i++) {
		volatile uint64_t *at = word_at(same + i * spf_page, 0);
		uint64_t v = *at;

		if (v != same_value[i])
			data_error(a->name, (void *)at, same_value[i], v,
				   "wrong contents");
		if (same_value[i] != FILL)
			*at = same_value[i] = FILL;
	}
	i = rnd % KSM_PAGES;
	*word_at(same + i * spf_page, 0) = same_value[i] = rnd | 1ULL << 63;
	usleep(5000);
}

static void ksm_finish(struct adversary *a)
{
	(void)a;
	set_file("/sys/kernel/mm/ksm/run", "0");
}

/* No adversary: what goes wrong here was done from elsewhere. */
static bool plain_setup(struct adversary *a)
{
	a->r = region_new(a->name, MAX_PAGES, spf_page);
	return true;
}

static void plain_op(struct adversary *a)
{
	(void)a;
	usleep(10000);
}

struct adversary adversaries[] = {
	{ .name = "plain", .setup = plain_setup, .op = plain_op },
	{ .name = "neighbour", .setup = neighbour_setup, .op = neighbour_op },
	{ .name = "replace", .setup = replace_setup, .op = replace_op },
	{ .name = "protect", .setup = protect_setup, .op = protect_op },
	{ .name = "move", .setup = move_setup, .op = move_op },
	{ .name = "movepmd", .setup = movepmd_setup, .op = movepmd_op },
	{ .name = "movepud", .setup = movepud_setup, .op = movepmd_op },
	{ .name = "discard", .setup = discard_setup, .op = discard_op },
	{ .name = "huge", .setup = huge_setup, .op = huge_op },
	{ .name = "lock", .setup = lock_setup, .op = lock_op },
	{ .name = "softdirty", .setup = softdirty_setup, .op = softdirty_op },
	{ .name = "uffd", .setup = uffd_setup, .op = uffd_op },
	{ .name = "name", .setup = name_setup, .op = name_op },
	{ .name = "policy", .setup = policy_setup, .op = policy_op },
	{ .name = "brk", .setup = brk_setup, .op = brk_op },
	{ .name = "swap", .setup = swap_setup, .op = swap_op,
	  .finish = swap_finish },
	{ .name = "ksm", .setup = ksm_setup, .op = ksm_op,
	  .finish = ksm_finish },
	{ .name = "fork", .setup = fork_setup, .op = fork_op },
	{ .name = "exec", .setup = exec_setup, .op = exec_op },
	{ .name = "threads", .setup = threads_setup, .op = threads_op },
	{ .name = "ptevalid", .setup = ptevalid_setup, .op = ptevalid_op },
	{ .name = "ptevalid2", .setup = ptevalid2_setup, .op = ptevalid_op },
	{ .name = "forkcow", .setup = forkcow_setup, .op = forkcow_op,
	  .finish = forkcow_finish, .alone = true },
};

const size_t nr_adversaries = ARRAY_SIZE(adversaries);
