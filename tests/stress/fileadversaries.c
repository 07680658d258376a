// SPDX-License-Identifier: GPL-2.0
/* The adversaries of owners of file pages. See filestress.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filestress.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#define MOVE_ALL	4		/* MPOL_MF_MOVE_ALL */
#define RW		(PROT_READ | PROT_WRITE)
#define FORK_PAGES	8
#define PROBES		4
#define MAX_ADVERSARIES	16
#define CHILD_SEQ	(1ULL << 32)	/* added to what a child stores */

struct span {
	size_t first, end;		/* pages */
};

static const struct span all_pages = { 0, PAGES };

static void must(int ret, const struct adversary *a, const char *what)
{
	if (ret)
		die("%s: %s", a->name, what);
}

static struct file *some_file(struct adversary *a)
{
	return &files[spf_rand(&a->rng) % nr_files];
}

static struct view *some_view(struct adversary *a, enum view_kind kind)
{
	return &some_file(a)->view[kind][spf_rand(&a->rng) & 1];
}

/* Some pages, never none; all in every fourth case. */
static struct span some_pages(struct adversary *a)
{
	uint64_t rnd = spf_rand(&a->rng);
	size_t first = rnd % PAGES;

	if (!(rnd >> 32 & 3))
		return all_pages;
	return (struct span){ first,
			      first + 1 + (rnd >> 16) % (PAGES - first) };
}

static size_t span_bytes(const struct file *f, struct span s)
{
	return (s.end - s.first) * f->step;
}

static char *place(const struct view *v, int side, struct span s)
{
	return v->base[side] + s.first * v->f->step;
}

/*
 * Before something else is done to a shared mapping, which loses nothing: there
 * will be faults under way.
 */
static void empty(struct adversary *a, struct view *v, int side)
{
	if (!v->private && spf_rand(&a->rng) & 1)
		madvise(v->base[side], file_bytes(v->f), MADV_DONTNEED);
}

static struct actor probers[MAX_ADVERSARIES];

static bool files_setup(struct adversary *a)
{
	size_t id = a - adversaries;

	actor_init(&probers[id], MAX_WRITERS + id, false);
	files_make();
	return true;
}

/* The adversary itself looks, too, while no store there may succeed. */
static void probe(struct adversary *a, struct view *v, int side, struct span s)
{
	struct actor *w = &probers[a - adversaries];
	int i;

	pause_random(&a->rng, 300);
	for (i = 0; i < PROBES; i++) {
		size_t page = s.first + spf_rand(&a->rng) % (s.end - s.first);

		actor_at(w, v, page, side);
		actor_try(w, actor_look_page);
		actor_try(w, actor_store);
	}
}

static void announce_wipe(struct file *f, struct span s, enum wipe state)
{
	size_t i;

	for (i = s.first; i < s.end; i++)
		announce(&f->notice[i].wipe, state);
}

static void announce_cut(struct file *f, struct span s, enum loss state)
{
	size_t i;

	for (i = s.first; i < s.end; i++)
		announce(&f->notice[i].cut, state);
}

/*
 * tmpfs gives up, and undoes it, when pages go to swap meanwhile. Not for huge
 * pages: Linux 6.1 lets MADV_COLLAPSE map what fallocate() has not cleared yet,
 * and beyond the end of the file.
 */
static bool allocate(struct adversary *a, struct file *f, int mode,
		     struct span s)
{
	int ret;

	if (f->huge)
		return false;
	ret = fallocate(f->fd, mode, s.first * f->step, span_bytes(f, s));
	must(ret && errno != ENOMEM, a, "fallocate");
	return !ret;
}

/* To the full length again; new pages are zero. */
static void extend(struct adversary *a, struct file *f)
{
	size_t bytes = file_bytes(f);
	uint64_t zero = 0;

	switch (spf_rand(&a->rng) % 3) {
	case 0:
		must(pwrite(f->fd, &zero, sizeof(zero), bytes - sizeof(zero)) !=
		     sizeof(zero), a, "pwrite at the end");
		break;
	case 1:
		if (allocate(a, f, 0, all_pages))
			break;
		/* fall through */
	default:
		must(ftruncate(f->fd, bytes), a, "ftruncate up");
	}
}

static void truncate_op(struct adversary *a)
{
	struct file *f = some_file(a);
	struct span s = { some_pages(a).first, PAGES };

	/* What is left of a huge page may be mapped as a whole. */
	if (f->huge)
		s.first = 0;
	pthread_rwlock_wrlock(&f->lock);
	announce_cut(f, s, LOSING);
	announce_wipe(f, s, WIPING);
	empty(a, &f->view[V_PLAIN][false], 0);
	must(ftruncate(f->fd, s.first * f->step), a, "ftruncate down");
	announce_wipe(f, s, BEYOND);
	probe(a, &f->view[V_PLAIN][spf_rand(&a->rng) & 1], 0, s);
	announce_wipe(f, s, WIPING);
	extend(a, f);
	announce_wipe(f, s, LIVE);
	announce_cut(f, s, KEPT);
	pthread_rwlock_unlock(&f->lock);
}

/* Not every file system has FALLOC_FL_ZERO_RANGE. */
static void punch(struct adversary *a, struct file *f, struct span s)
{
	off_t at = s.first * f->step;
	size_t bytes = span_bytes(f, s);

	switch (spf_rand(&a->rng) % 3) {
	case 0:
		must(madvise(place(&f->view[V_PLAIN][false], 0, s), bytes,
			     MADV_REMOVE), a, "MADV_REMOVE");
		break;
	case 1:
		if (!fallocate(f->fd, FALLOC_FL_ZERO_RANGE |
			       FALLOC_FL_KEEP_SIZE, at, bytes))
			break;
		/* fall through */
	default:
		must(fallocate(f->fd, FALLOC_FL_PUNCH_HOLE |
			       FALLOC_FL_KEEP_SIZE, at, bytes), a,
		     "FALLOC_FL_PUNCH_HOLE");
	}
}

static void punch_op(struct adversary *a)
{
	struct file *f = some_file(a);
	struct span s = some_pages(a);

	pthread_rwlock_wrlock(&f->lock);
	announce_wipe(f, s, WIPING);
	empty(a, &f->view[V_PLAIN][false], 0);
	punch(a, f, s);
	announce_wipe(f, s, LIVE);
	pthread_rwlock_unlock(&f->lock);
}

/* Fills holes, also beyond the end, and shows nothing. */
static void allocate_op(struct adversary *a)
{
	while (!allocate(a, some_file(a), FALLOC_FL_KEEP_SIZE, some_pages(a)))
		;
}

static void sync_op(struct adversary *a)
{
	struct file *f = some_file(a);
	struct span s = some_pages(a);
	char *at = place(&f->view[V_PLAIN][false], 0, s);
	size_t bytes = span_bytes(f, s);

	switch (spf_rand(&a->rng) & 3) {
	case 0:
		must(msync(at, bytes, MS_SYNC), a, "MS_SYNC");
		break;
	case 1:
		must(msync(at, bytes, MS_ASYNC | MS_INVALIDATE), a, "MS_ASYNC");
		break;
	case 2:
		must(sync_file_range(f->fd, s.first * f->step, bytes,
				     SYNC_FILE_RANGE_WRITE), a,
		     "sync_file_range");
		break;
	default:
		must(fdatasync(f->fd), a, "fdatasync");
	}
}

/* Of shared mappings nothing is lost; a place where one is not is passed by. */
static void advise_shared(struct file *f, struct span s, int advice)
{
	unsigned int kind;

	for (kind = 0; kind < NR_VIEWS; kind++) {
		struct view *v = &f->view[kind][false];

		madvise(place(v, 0, s), span_bytes(f, s), advice);
		if (v->base[1])
			madvise(place(v, 1, s), span_bytes(f, s), advice);
	}
}

/* What is clean and not mapped leaves the page cache. mincore() tells. */
static uint64_t tried, dropped;

static void drop_op(struct adversary *a)
{
	struct file *f = some_file(a);
	struct span s = some_pages(a);
	unsigned char there[file_bytes(f) / spf_page];
	size_t bytes = span_bytes(f, s), i;
	off_t at = s.first * f->step;

	advise_shared(f, s, MADV_DONTNEED);
	must(fdatasync(f->fd), a, "fdatasync");
	must(posix_fadvise(f->fd, at, bytes, POSIX_FADV_DONTNEED), a,
	     "POSIX_FADV_DONTNEED");
	if (f->direct < 0)
		return;
	must(mincore(place(&f->view[V_PLAIN][false], 0, s), bytes, there), a,
	     "mincore");
	tried += bytes / spf_page;
	for (i = 0; i < bytes / spf_page; i++)
		dropped += !(there[i] & 1);
}

static void drop_finish(struct adversary *a)
{
	tap_diag("%s: of %" PRIu64 " pages on a device %" PRIu64
		 " were not in the page cache", a->name, tried, dropped);
}

/* Pages go to swap, where there is some, or to the file; and come back. */
static const char *swap_device;

static bool pageout_setup(struct adversary *a)
{
	swap_device = swap_on(4 * MAX_PAGES * spf_page);
	return files_setup(a);
}

static void pageout_op(struct adversary *a)
{
	enum view_kind kind = spf_rand(&a->rng) % NR_VIEWS;
	struct view *v = some_view(a, kind);
	struct span s = some_pages(a);

	madvise(place(v, 0, s), span_bytes(v->f, s), MADV_PAGEOUT);
}

static void pageout_finish(struct adversary *a)
{
	if (swap_device && swapoff(swap_device))
		die("%s: swapoff %s", a->name, swap_device);
}

static long move_pages(void **at, const int *node, int *status, size_t n)
{
	return syscall(SYS_move_pages, 0, n, at, node, status, MOVE_ALL);
}

static bool migrate_setup(struct adversary *a)
{
	void *at = a;
	int node = 1, status = -1;

	files_setup(a);
	return !move_pages(&at, &node, &status, 1) && status == node;
}

/* As far as pages are there. */
static void migrate_op(struct adversary *a)
{
	struct view *v = some_view(a, V_PLAIN);
	struct span s = some_pages(a);
	int node[PAGES], status[PAGES];
	void *at[PAGES];
	size_t i;

	for (i = 0; i < s.end - s.first; i++) {
		at[i] = place(v, 0, s) + i * v->f->step;
		node[i] = spf_rand(&a->rng) & 1;
	}
	must(move_pages(at, node, status, i) < 0, a, "move_pages");
}

static struct file *huge_file(void)
{
	struct file *f;

	for (f = files; f < files + nr_files; f++)
		if (f->huge)
			return f;
	return NULL;
}

/* Makes huge pages of what was punched or swapped, as far as it can. */
static uint64_t collapsed;

static void collapse_op(struct adversary *a)
{
	struct file *f = huge_file();
	unsigned int kind = spf_rand(&a->rng) % NR_VIEWS;
	char *at = f->view[kind][false].base[0];

	collapsed += !madvise(at, file_bytes(f), MADV_COLLAPSE);
}

static bool collapse_setup(struct adversary *a)
{
	char *at;

	files_setup(a);
	if (!huge_file())
		return false;
	at = huge_file()->view[V_PLAIN][false].base[0];
	touch_read(at);
	return !madvise(at, spf_table, MADV_COLLAPSE);
}

static void collapse_finish(struct adversary *a)
{
	tap_diag("%s: %" PRIu64 " were huge then", a->name, collapsed);
}

/* All of it, for what is announced is the loss of every copy. */
static void discard_op(struct adversary *a)
{
	struct view *v = some_view(a, V_PLAIN);

	announce(&v->life, LOSING);
	must(madvise(v->base[0], file_bytes(v->f), MADV_DONTNEED), a,
	     "MADV_DONTNEED");
	announce(&v->life, KEPT);
}

/* What is read only lies there for a while. */
static void lie_there(struct adversary *a, struct view *v)
{
	announce(&v->state[0], FILLED);
	probe(a, v, 0, all_pages);
	announce(&v->state[0], MOVING);
}

static void replace(struct adversary *a, struct view *v)
{
	switch (spf_rand(&a->rng) & 3) {
	case 0:
		must(munmap(v->base[0], file_bytes(v->f)), a, "munmap");
		announce(&v->state[0], GONE);
		probe(a, v, 0, all_pages);
		announce(&v->state[0], MOVING);
		break;
	case 1:
		v->shift = 0;
		view_map_fill(v);
		lie_there(a, v);
		break;
	case 2:
		v->shift = 1 + spf_rand(&a->rng) % (PAGES - 1);
		view_map_shifted(v);
		lie_there(a, v);
		break;
	default:	/* at once by itself */
		break;
	}
	view_map(v);
}

static void replace_op(struct adversary *a)
{
	struct view *v = some_view(a, V_REPLACE);

	announce(&v->life, LOSING);
	announce(&v->state[0], MOVING);
	empty(a, v, 0);
	replace(a, v);
	announce(&v->state[0], OPEN);
	announce(&v->life, KEPT);
}

static void move_to(struct adversary *a, struct view *v, struct span s, int to)
{
	char *at = place(v, to, s);
	size_t bytes = span_bytes(v->f, s);

	must(mremap(place(v, !to, s), bytes, bytes,
		    MREMAP_MAYMOVE | MREMAP_FIXED, at) != at, a, "mremap");
}

/* All of it goes to its other place, or a part, and comes back. */
static void move_op(struct adversary *a)
{
	struct view *v = some_view(a, V_MOVE);
	int from = (v->state[0] & 7) != OPEN, to = !from;
	struct span s = some_pages(a);
	bool all = s.end - s.first == PAGES;

	announce(&v->state[from], MOVING);
	announce(&v->state[to], MOVING);
	empty(a, v, from);
	move_to(a, v, s, to);
	if (!all) {
		pause_random(&a->rng, 300);
		move_to(a, v, s, from);
		to = from;
		from = !to;
	}
	announce(&v->state[from], GONE);
	announce(&v->state[to], OPEN);
	probe(a, v, from, s);
}

static void protect_op(struct adversary *a)
{
	struct view *v = some_view(a, V_PROTECT);
	struct span s = some_pages(a);
	bool none = spf_rand(&a->rng) & 1;
	char *at = place(v, 0, s);
	size_t bytes = span_bytes(v->f, s);

	announce(&v->state[0], MOVING);
	empty(a, v, 0);
	must(mprotect(at, bytes, none ? PROT_NONE : PROT_READ), a, "mprotect");
	if (s.end - s.first == PAGES) {
		announce(&v->state[0], none ? GONE : READONLY);
		probe(a, v, 0, s);
		announce(&v->state[0], MOVING);
	} else {
		pause_random(&a->rng, 300);
	}
	must(mprotect(at, bytes, RW), a, "mprotect");
	announce(&v->state[0], OPEN);
}

/* The copies of views that nobody else uses, in parent and child. */
static struct actor forker;

static bool fork_file_setup(struct adversary *a)
{
	children_init();
	actor_init(&forker, MAX_WRITERS + MAX_ADVERSARIES, false);
	forker.own = true;
	return files_setup(a);
}

static void on_copies(struct file *f, void (*op)(struct actor *w))
{
	struct view *v = &f->view[V_FORK][true];
	int i;

	for (i = 0; i < FORK_PAGES; i++) {
		actor_at(&forker, v, spf_rand(&forker.rng) % PAGES, 0);
		actor_try(&forker, op);
	}
}

static void check_copies(struct file *f)
{
	size_t page;

	for (page = 0; page < PAGES; page++) {
		actor_at(&forker, &f->view[V_FORK][true], page, 0);
		actor_try(&forker, actor_look_page);
	}
}

/* Finds what its parent had, and then what itself has stored. */
static void child(struct file *f)
{
	forker.child = true;
	forker.seq += CHILD_SEQ;
	if (pipe(forker.pipe))
		_exit(2);
	check_copies(f);
	on_copies(f, actor_store);
	usleep(1000);
	check_copies(f);
	_exit(0);
}

static void fork_file_op(struct adversary *a)
{
	struct file *f = some_file(a);
	pid_t pid;

	on_copies(f, actor_store);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		child(f);
	on_copies(f, actor_store);
	check_copies(f);
	reap(a, pid);
	check_copies(f);
}

struct adversary adversaries[] = {
	{ .name = "truncate", .setup = files_setup, .op = truncate_op },
	{ .name = "punch", .setup = files_setup, .op = punch_op },
	{ .name = "allocate", .setup = files_setup, .op = allocate_op },
	{ .name = "sync", .setup = files_setup, .op = sync_op },
	{ .name = "drop", .setup = files_setup, .op = drop_op,
	  .finish = drop_finish },
	{ .name = "pageout", .setup = pageout_setup, .op = pageout_op,
	  .finish = pageout_finish },
	{ .name = "migrate", .setup = migrate_setup, .op = migrate_op },
	{ .name = "collapse", .setup = collapse_setup, .op = collapse_op,
	  .finish = collapse_finish },
	{ .name = "discard", .setup = files_setup, .op = discard_op },
	{ .name = "replace", .setup = files_setup, .op = replace_op },
	{ .name = "move", .setup = files_setup, .op = move_op },
	{ .name = "protect", .setup = files_setup, .op = protect_op },
	{ .name = "fork", .setup = fork_file_setup, .op = fork_file_op },
};

const size_t nr_adversaries = ARRAY_SIZE(adversaries);
_Static_assert(ARRAY_SIZE(adversaries) <= MAX_ADVERSARIES, "too few probers");
