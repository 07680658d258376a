/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stress test of file mappings: owners store to pages of files, through
 * mappings and by pwrite(), and check them; adversaries truncate, punch, remap,
 * write back and drop them. As in stress.h, every check is exact.
 *
 * Who truncates or punches announces it for each page, before and after; so
 * does who changes a mapping. What an owner finds announced before and after an
 * access, held all through it. Each wipe of a page counts: a word is what its
 * owner stored last if there was no wipe since, and zero if there was. Where
 * the store met the wipe it may be either, until a pread() settles it, which
 * every mapping then must agree with.
 *
 * A page of a private mapping has a copy from its owner's first store there
 * until a truncation takes the page, or the mapping is replaced. Nothing else
 * may change the copy, and nothing of it may show elsewhere.
 */
#ifndef FILESTRESS_H
#define FILESTRESS_H

#include <pthread.h>

#include "stress.h"

#define PAGES		MAX_PAGES
#define MAX_FILES	3

enum wipe {
	LIVE,		/* the owner's, inside the file */
	WIPING,		/* may turn to zero, come or go */
	BEYOND,		/* the end of the file */
};

enum loss {
	KEPT,
	LOSING,		/* copies of private mappings may go */
};

/* What is announced of a page of a file, in memory that children share. */
struct notice {
	uint64_t wipe;		/* count << 3 | enum wipe */
	uint64_t cut;		/* count << 3 | enum loss */
	uint64_t seq;		/* of the newest store, when it begins */
};

/* What the owner knows of a word of a file. */
struct known {
	uint64_t value;
	uint64_t wipe;		/* all through the store; 0: it met a wipe */
};

/* Each mapping is one adversary's to change; plain ones stay. */
enum view_kind {
	V_PLAIN,
	V_REPLACE,
	V_MOVE,
	V_PROTECT,
	V_FORK,
	NR_VIEWS
};

#define WRITER_VIEWS	V_FORK		/* the kinds below it */
#define FILL_VIEW	63		/* in stamps: of the fill file */

/* What the owner knows of a page of a private mapping. */
struct copy {
	enum { NO_COPY, A_COPY, MAYBE_COPY } kind;
	uint64_t life, cut;	/* when it was seen to be there */
	uint64_t value[WORDS];
};

/* A mapping of a whole file. */
struct view {
	struct file *f;
	enum view_kind kind;
	bool private;
	char *base[2];		/* [1]: the place it is moved to, or NULL */
	uint64_t state[2];	/* count << 3 | enum state */
	uint64_t life;		/* count << 3 | enum loss, of all copies */
	size_t shift;		/* FILLED: pages, or 0: by the fill file */
	struct copy copy[PAGES];	/* if it is private */
};

struct file {
	const char *name, *dir;
	unsigned int id;
	char path[64];
	int fd;
	int direct;		/* the same with O_DIRECT, or -1 */
	int fill;		/* another file to be mapped in its place */
	size_t step;		/* bytes from page to page */
	bool huge;		/* all of it may be one huge page */
	pthread_rwlock_t lock;	/* for writing: who wipes */
	struct notice *notice;
	struct known known[PAGES][WORDS];
	struct view view[NR_VIEWS][2];	/* shared and private */
};

extern const char *const view_name[NR_VIEWS];
extern struct file files[MAX_FILES];
extern unsigned int nr_files;

/* Makes the files and their views, the first time that it is called. */
void files_make(void);
void files_unmap(void);
/* After files_unmap(): what is in the page cache is written, and dropped. */
void files_drop(void);
/* The same for certain, where there is a device. */
void files_remount(void);
void files_remove(void);

/* Maps the file, the fill file, or the file from v->shift on, at side 0. */
void view_map(struct view *v);
void view_map_fill(struct view *v);
void view_map_shifted(struct view *v);

static inline size_t file_bytes(const struct file *f)
{
	return PAGES * f->step;
}

/* seq:40 view:6 file:6 page:6 word:6; view is 0 in the file itself. */
static inline uint64_t file_stamp(const struct file *f, unsigned int view,
				  size_t page, size_t word, uint64_t seq)
{
	return seq << 24 | (uint64_t)view << 18 | (uint64_t)f->id << 12 |
	       page << 6 | word;
}

static inline unsigned int view_id(const struct view *v)
{
	return v->private ? v->kind + 1 : 0;
}

/* What is announced of all that an access depends on. */
struct moment {
	uint64_t view, wipe, life, cut;
};

/* A thread, or a child, that accesses pages and checks them. */
struct actor {
	unsigned int id;
	bool own_files;		/* owns its pages of files, else only copies */
	bool child;
	uint64_t rng;
	uint64_t seq;		/* of stores in private mappings */
	int pipe[2];
	char *buf;		/* a page */
	/* what it is at */
	struct view *v;
	size_t page;
	int side;
	char *at;
	bool own;		/* what its owner knows can be checked */
	/* the access under way */
	bool store;
	struct moment was;	/* before it */
	uint64_t steps, stores, pwrites, rewrites;
	uint64_t exact;		/* words checked for one value */
	uint64_t refused, beyond;
};

void actor_init(struct actor *w, unsigned int id, bool own_files);
void actor_at(struct actor *w, struct view *v, size_t page, int side);
/* Runs an operation up to the first access that fails; false if one did. */
bool actor_try(struct actor *w, void (*op)(struct actor *w));

/* Operations: load and check, store through the mapping; some or all words. */
void actor_look(struct actor *w);
void actor_look_page(struct actor *w);
void actor_store(struct actor *w);

#endif
