// SPDX-License-Identifier: GPL-2.0
/* The files of the stress test, and their mappings. See filestress.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filestress.h"

#define RW		(PROT_READ | PROT_WRITE)
#define EXT4_DEVICE	"/dev/ram1"	/* of ext4_on() */

const char *const view_name[NR_VIEWS] = {
	[V_PLAIN]	= "plain",
	[V_REPLACE]	= "replace",
	[V_MOVE]	= "move",
	[V_PROTECT]	= "protect",
	[V_FORK]	= "fork",
};

struct file files[MAX_FILES];
unsigned int nr_files;

static struct file *ext4_file;		/* if there is one */

static void map_file(struct view *v, char *at, size_t bytes, int prot,
		     off_t offset)
{
	int flags = v->private ? MAP_PRIVATE : MAP_SHARED;

	if (mmap(at, bytes, prot, flags | MAP_FIXED, v->f->fd, offset) != at)
		die("mmap of %s at %p", v->f->path, at);
}

void view_map(struct view *v)
{
	map_file(v, v->base[0], file_bytes(v->f), RW, 0);
}

void view_map_fill(struct view *v)
{
	if (mmap(v->base[0], file_bytes(v->f), PROT_READ,
		 MAP_PRIVATE | MAP_FIXED, v->f->fill, 0) != v->base[0])
		die("mmap of a fill file");
}

/* For reading only: a store would hit another owner's page. */
void view_map_shifted(struct view *v)
{
	size_t skipped = v->shift * v->f->step;
	size_t bytes = file_bytes(v->f) - skipped;

	map_file(v, v->base[0], bytes, PROT_READ, skipped);
	map_file(v, v->base[0] + bytes, skipped, PROT_READ, 0);
}

/*
 * mremap() wants one VMA. Parts that got anon_vmas of their own while they were
 * apart would not merge again, so they all get the one of the whole.
 */
static void make_movable(struct view *v)
{
	v->base[1] = arena_take(file_bytes(v->f));
	if (!v->private)
		return;
	touch_write(v->base[0], 0);
	if (madvise(v->base[0], spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED");
}

static void make_view(struct file *f, enum view_kind kind, bool private)
{
	struct view *v = &f->view[kind][private];

	v->f = f;
	v->kind = kind;
	v->private = private;
	v->base[0] = arena_take(file_bytes(f));
	view_map(v);
	announce(&v->state[0], OPEN);
	announce(&v->state[1], GONE);
	announce(&v->life, KEPT);
	if (kind == V_MOVE)
		make_movable(v);
}

static void make_fill(struct file *f)
{
	uint64_t words[spf_page / sizeof(uint64_t)];
	size_t page, i;

	f->fill = memfd_create("fill", MFD_CLOEXEC);
	if (f->fill < 0 || ftruncate(f->fill, file_bytes(f)))
		die("memfd_create");
	for (page = 0; page < PAGES; page++) {
		for (i = 0; i < WORDS; i++)
			*word_at((char *)words, i) =
				file_stamp(f, FILL_VIEW, page, i, 1);
		if (pwrite(f->fill, words, spf_page, page * f->step) !=
		    (ssize_t)spf_page)
			die("write to a memfd");
	}
}

static void make_notices(struct file *f)
{
	size_t page;

	f->notice = mmap(NULL, PAGES * sizeof(*f->notice), RW,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (f->notice == MAP_FAILED)
		die("mmap");
	for (page = 0; page < PAGES; page++) {
		announce(&f->notice[page].wipe, LIVE);
		announce(&f->notice[page].cut, KEPT);
	}
}

static void open_file(struct file *f)
{
	f->fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (f->fd < 0 || ftruncate(f->fd, file_bytes(f)))
		die("cannot make %s", f->path);
	f->direct = open(f->path, O_RDWR | O_DIRECT | O_CLOEXEC);
}

static struct file *add_file(const char *name, const char *dir, size_t step)
{
	struct file *f = &files[nr_files];
	unsigned int kind;

	f->name = name;
	f->dir = dir;
	f->id = nr_files++;
	f->step = step;
	snprintf(f->path, sizeof(f->path), "%s/file", dir);
	open_file(f);
	pthread_rwlock_init(&f->lock, NULL);
	make_notices(f);
	make_fill(f);
	for (kind = 0; kind < NR_VIEWS; kind++) {
		make_view(f, kind, false);
		make_view(f, kind, true);
	}
	return f;
}

static const char *tmpfs_on(const char *dir, const char *options)
{
	if (mkdir(dir, 0700) || mount("tmpfs", dir, "tmpfs", 0, options))
		return NULL;
	return dir;
}

/* mke2fs of busybox makes none of the files that fallocate() can extend. */
static void allow_extents(void)
{
	const off_t at = 1024 + 0x60;		/* s_feature_incompat */
	int fd = open(EXT4_DEVICE, O_RDWR | O_CLOEXEC);
	uint32_t features;

	if (fd < 0 || pread(fd, &features, sizeof(features), at) < 0)
		die("cannot read %s", EXT4_DEVICE);
	features |= 0x40;			/* EXTENTS */
	if (pwrite(fd, &features, sizeof(features), at) < 0 || fsync(fd))
		die("cannot write to %s", EXT4_DEVICE);
	close(fd);
}

static void mount_ext4(const char *dir)
{
	if (mount(EXT4_DEVICE, dir, "ext4", 0, NULL))
		die("mount of %s", EXT4_DEVICE);
}

/*
 * It fails if anything still holds a file that was closed and unmapped. For a while
 * khugepaged may: it drops its reference from a workqueue.
 */
static void umount_or_die(const char *dir)
{
	int tries = 100;

	while (umount(dir)) {
		if (errno != EBUSY || !tries--)
			die("umount of %s", dir);
		usleep(100000);
	}
}

void files_make(void)
{
	static const char tmpfs[] = "/tmp/tmpfs", huge[] = "/tmp/huge";
	const char *ext4;
	struct file *f;

	if (nr_files)
		return;
	if (!tmpfs_on(tmpfs, NULL))
		die("cannot mount a tmpfs");
	add_file("tmpfs", tmpfs, spf_page);
	if (tmpfs_on(huge, "huge=always")) {
		f = add_file("huge", huge, spf_table / PAGES);
		f->huge = true;
	} else {
		tap_diag("no tmpfs with huge=always");
	}
	ext4 = ext4_on();
	if (!ext4) {
		tap_diag(NO_EXT4);
		return;
	}
	umount_or_die(ext4);
	allow_extents();
	mount_ext4(ext4);
	ext4_file = add_file("ext4", ext4, spf_page);
}

static void unmap_view(const struct view *v)
{
	for (int side = 0; side < 2; side++)
		if (v->base[side] && munmap(v->base[side], file_bytes(v->f)))
			die("munmap");
}

void files_unmap(void)
{
	unsigned int i, kind;

	for (i = 0; i < nr_files; i++)
		for (kind = 0; kind < NR_VIEWS; kind++) {
			unmap_view(&files[i].view[kind][false]);
			unmap_view(&files[i].view[kind][true]);
		}
}

void files_drop(void)
{
	struct file *f;

	for (f = files; f < files + nr_files; f++)
		if (fsync(f->fd) ||
		    posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED))
			die("fsync of %s", f->path);
}

static void close_file(struct file *f)
{
	if (f->direct >= 0)
		close(f->direct);
	if (close(f->fd))
		die("close of %s", f->path);
}

void files_remount(void)
{
	if (!ext4_file)
		return;
	close_file(ext4_file);
	umount_or_die(ext4_file->dir);
	mount_ext4(ext4_file->dir);
	open_file(ext4_file);
}

void files_remove(void)
{
	struct file *f;

	for (f = files; f < files + nr_files; f++) {
		close_file(f);
		umount_or_die(f->dir);
		rmdir(f->dir);
	}
}
