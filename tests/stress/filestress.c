// SPDX-License-Identifier: GPL-2.0
/* Who owns pages of files or of private mappings. See filestress.h. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "filestress.h"

/* What held from the moment before an access to that after it. */
struct held {
	bool view;		/* the mapping */
	bool wipe;		/* the page of the file */
	bool copy;		/* a copy, if there was one */
};

static struct actor owners[MAX_WRITERS];
static pthread_t threads[MAX_WRITERS];

static void error(const struct actor *w, size_t word, uint64_t expected,
		  uint64_t found, const char *what)
{
	volatile uint64_t *at = word_at(w->at, word);
	char where[96];

	if (w->child)
		child_error(at, expected, found, what);
	snprintf(where, sizeof(where), "file %s view %s %s owner %u page %zu",
		 w->v->f->name, view_name[w->v->kind],
		 w->v->private ? "private" : "shared", w->id, w->page);
	data_error(where, (void *)at, expected, found, what);
}

static struct notice *notice_of(const struct actor *w)
{
	return &w->v->f->notice[w->page];
}

static struct moment moment_of(const struct actor *w)
{
	return (struct moment){
		.view = announced(&w->v->state[w->side]),
		.wipe = announced(&notice_of(w)->wipe),
		.life = announced(&w->v->life),
		.cut = announced(&notice_of(w)->cut),
	};
}

static void begin(struct actor *w, bool store)
{
	w->store = store;
	w->was = moment_of(w);
}

static struct held held_since(const struct actor *w)
{
	const struct moment *was = &w->was;
	struct moment now = moment_of(w);

	return (struct held){
		.view = now.view == was->view,
		.wipe = now.wipe == was->wipe,
		.copy = now.life == was->life && (was->life & 7) == KEPT &&
			now.cut == was->cut && (was->cut & 7) == KEPT,
	};
}

static enum state view_state(const struct actor *w)
{
	return w->was.view & 7;
}

static enum wipe wipe_state(const struct actor *w)
{
	return w->was.wipe & 7;
}

/* 0, or what anybody may have stored in that page up to now. */
static void check_stamp(const struct actor *w, size_t page, size_t word,
			uint64_t v)
{
	const struct file *f = w->v->f;
	uint64_t newest = __atomic_load_n(&f->notice[page].seq,
					  __ATOMIC_SEQ_CST);
	uint64_t seq = v >> 24;
	unsigned int id = view_id(w->v);

	if (!v || (v == file_stamp(f, 0, page, word, seq) && seq <= newest))
		return;
	if (page == w->page && v == file_stamp(f, id, page, word, seq) && id)
		return;
	error(w, word, file_stamp(f, 0, page, word, newest), v,
	      "not what belongs there");
}

/* Of the file itself, by the page's owner. */
static void check_file_word(struct actor *w, size_t word, uint64_t v,
			    const struct held *h)
{
	const struct known *k = &w->v->f->known[w->page][word];
	uint64_t want = k->value;

	if (!h->wipe || wipe_state(w) != LIVE || !k->wipe) {
		if (v && v != want)
			error(w, word, want, v, "neither stored nor zero");
		return;
	}
	w->exact++;
	if (k->wipe != w->was.wipe)
		want = 0;
	if (v != want)
		error(w, word, want, v, want ? "store was lost" :
		      "wiped page is not zero");
}

static bool same_copy(const struct actor *w, const struct copy *c)
{
	return c->life == w->was.life && c->cut == w->was.cut;
}

static void check_private_word(struct actor *w, size_t word, uint64_t v,
			       const struct held *h)
{
	struct copy *c = &w->v->copy[w->page];

	if (!h->copy || c->kind == MAYBE_COPY) {
		check_stamp(w, w->page, word, v);
		return;
	}
	if (c->kind == A_COPY && !same_copy(w, c))
		c->kind = NO_COPY;
	if (c->kind == A_COPY) {
		w->exact++;
		if (v != c->value[word])
			error(w, word, c->value[word], v,
			      "private copy was changed");
	} else if (w->own_files) {
		check_file_word(w, word, v, h);
	} else {
		check_stamp(w, w->page, word, v);
	}
}

static void check_filled_word(struct actor *w, size_t word, uint64_t v)
{
	const struct view *view = w->v;
	uint64_t fill = file_stamp(view->f, FILL_VIEW, w->page, word, 1);

	if (view->shift)
		check_stamp(w, (w->page + view->shift) % PAGES, word, v);
	else if (v != fill)
		error(w, word, fill, v, "not the other file's contents");
}

/* The word was loaded. */
static void check_word(struct actor *w, size_t word, uint64_t v,
		       const struct held *h)
{
	enum state s = view_state(w);

	if (!h->view || s == MOVING)
		return;
	if (s == GONE)
		error(w, word, 0, v, "load where nothing is mapped");
	else if (s == FILLED)
		check_filled_word(w, word, v);
	else if (h->wipe && wipe_state(w) == BEYOND)
		error(w, word, 0, v, "load beyond the end of the file");
	else if (!w->own)
		check_stamp(w, w->page, word, v);
	else if (w->v->private)
		check_private_word(w, word, v, h);
	else
		check_file_word(w, word, v, h);
}

/* Did an access have to fail, as it did? sig is 0 for EFAULT. */
static bool may_fail(struct actor *w, int sig, const struct held *h)
{
	bool segv_only = sig != SIGBUS, bus_only = sig != SIGSEGV;

	switch (view_state(w)) {
	case MOVING:
		return true;
	case GONE:
		return segv_only;
	case FILLED:
		return w->store ? segv_only : w->v->shift && bus_only;
	case READONLY:
		if (w->store)
			return segv_only;
		break;
	default:
		break;
	}
	if (h->wipe && wipe_state(w) == LIVE)
		return false;
	w->beyond += h->wipe && wipe_state(w) == BEYOND;
	return bus_only;
}

static void failed(struct actor *w, int sig)
{
	struct held h = held_since(w);

	w->refused++;
	if (h.view && !may_fail(w, sig, &h))
		error(w, 0, w->was.view & 7, sig, "access was refused");
}

/* Loads words, and only then looks what held. */
static void look(struct actor *w, size_t first, size_t end)
{
	uint64_t seen[WORDS];
	struct held h;
	size_t i;

	begin(w, false);
	for (i = first; i < end; i++)
		seen[i] = *word_at(w->at, i);
	h = held_since(w);
	for (i = first; i < end; i++)
		check_word(w, i, seen[i], &h);
}

void actor_look_page(struct actor *w)
{
	look(w, 0, WORDS);
}

void actor_look(struct actor *w)
{
	size_t word = spf_rand(&w->rng) % WORDS;

	look(w, word, word + 1);
}

static void know(struct actor *w, size_t word, uint64_t v,
		 const struct held *h)
{
	bool live = h->wipe && wipe_state(w) == LIVE;

	w->v->f->known[w->page][word] = (struct known){
		v, live ? w->was.wipe : 0
	};
}

static off_t offset_of(const struct actor *w)
{
	return w->page * w->v->f->step;
}

/* Checks what pread() reads, and from then on each word is known. */
static void read_file(struct actor *w)
{
	bool live, beyond;
	struct held h;
	ssize_t n;
	size_t i;

	begin(w, false);
	n = pread(w->v->f->fd, w->buf, spf_page, offset_of(w));
	h = held_since(w);
	live = h.wipe && wipe_state(w) == LIVE;
	beyond = h.wipe && wipe_state(w) == BEYOND;
	if ((live && n != (ssize_t)spf_page) || (beyond && n))
		error(w, 0, wipe_state(w), n, "pread() of so many bytes");
	for (i = 0; n == (ssize_t)spf_page && i < WORDS; i++) {
		uint64_t v = *word_at(w->buf, i);

		check_file_word(w, i, v, &h);
		if (live)
			know(w, i, v, &h);
	}
}

/* What a mapping shows is what pread() reads. */
static void compare(struct actor *w)
{
	if (w->own)
		read_file(w);
	actor_look_page(w);
}

/* A store made sure of a copy: note all of it. */
static void note_copy(struct actor *w, size_t word, uint64_t v, bool was_none)
{
	struct copy *c = &w->v->copy[w->page];
	uint64_t seen[WORDS];
	struct held h;
	size_t i;

	w->store = false;
	for (i = 0; i < WORDS; i++)
		seen[i] = *word_at(w->at, i);
	h = held_since(w);
	if (!h.view || !h.copy)
		return;
	for (i = 0; i < WORDS; i++) {
		if (i == word && seen[i] != v)
			error(w, i, v, seen[i], "private store was lost");
		else if (i != word && was_none && w->own_files)
			check_file_word(w, i, seen[i], &h);
		else
			check_stamp(w, w->page, i, seen[i]);
		c->value[i] = seen[i];
	}
	c->kind = A_COPY;
	c->life = w->was.life;
	c->cut = w->was.cut;
}

static void stored_private(struct actor *w, size_t word, uint64_t v,
			   const struct held *h)
{
	struct copy *c = &w->v->copy[w->page];
	bool was_none = c->kind != MAYBE_COPY;

	if (h->copy && c->kind == A_COPY && same_copy(w, c)) {
		c->value[word] = v;
		return;
	}
	c->kind = MAYBE_COPY;
	if (h->view && h->copy && view_state(w) == OPEN)
		note_copy(w, word, v, was_none);
}

static void stored(struct actor *w, size_t word, uint64_t v)
{
	struct held h = held_since(w);
	enum state s = view_state(w);

	if (h.view && s != OPEN && s != MOVING)
		error(w, word, 0, v, "store where none is allowed");
	else if (h.view && s == OPEN && h.wipe && wipe_state(w) == BEYOND)
		error(w, word, 0, v, "store beyond the end of the file");
	if (w->v->private)
		stored_private(w, word, v, &h);
	else
		know(w, word, v, &h);
}

static uint64_t next_seq(struct actor *w)
{
	struct notice *n = notice_of(w);

	if (w->v->private)
		return ++w->seq;
	return __atomic_add_fetch(&n->seq, 1, __ATOMIC_SEQ_CST);
}

static bool store_word(struct actor *w, size_t word, uint64_t v, bool by_kernel)
{
	volatile uint64_t *at = word_at(w->at, word);

	begin(w, true);
	if (!by_kernel) {
		*at = v;
	} else if (!kernel_store(w->pipe, at, v)) {
		failed(w, 0);
		return false;
	}
	stored(w, word, v);
	return true;
}

void actor_store(struct actor *w)
{
	uint64_t rnd = spf_rand(&w->rng), seq = next_seq(w);
	size_t first = rnd % WORDS, i;
	size_t end = rnd >> 8 & 3 ? first + 1 : WORDS;

	for (i = first; i < end; i++)
		if (!store_word(w, i, file_stamp(w->v->f, view_id(w->v),
						 w->page, i, seq),
				i == first && !(rnd >> 16 & 7)))
			return;
	w->stores++;
}

/* All of the page, or one word. Whoever wipes is kept out: it would extend. */
static void store_by_pwrite(struct actor *w)
{
	struct file *f = w->v->f;
	uint64_t rnd = spf_rand(&w->rng), seq;
	size_t first = rnd >> 8 & 1 ? rnd % WORDS : 0, i;
	size_t end = rnd >> 8 & 1 ? first + 1 : WORDS;
	size_t from = first * (spf_page / WORDS);
	ssize_t len = end == WORDS ? spf_page - from : sizeof(uint64_t);
	struct held h;

	if (pthread_rwlock_tryrdlock(&f->lock))
		return;
	seq = __atomic_add_fetch(&notice_of(w)->seq, 1, __ATOMIC_SEQ_CST);
	memset(w->buf, 0, spf_page);
	for (i = first; i < end; i++)
		*word_at(w->buf, i) = file_stamp(f, 0, w->page, i, seq);
	begin(w, true);
	if (pwrite(f->fd, w->buf + from, len, offset_of(w) + from) != len)
		die("pwrite to %s", f->path);
	h = held_since(w);
	for (i = first; i < end; i++)
		know(w, i, *word_at(w->buf, i), &h);
	w->pwrites++;
	pthread_rwlock_unlock(&f->lock);
}

/*
 * Writes past the page cache, which drops the page from it and from every
 * mapping. It is what was there: who reads meanwhile may read either.
 */
static void rewrite(struct actor *w)
{
	struct file *f = w->v->f;
	ssize_t len = spf_page;

	if (f->direct < 0 || pthread_rwlock_tryrdlock(&f->lock))
		return;
	if (pread(f->fd, w->buf, len, offset_of(w)) != len ||
	    pwrite(f->direct, w->buf, len, offset_of(w)) != len)
		die("direct write to %s", f->path);
	w->rewrites++;
	pthread_rwlock_unlock(&f->lock);
}

/*
 * An own copy, or all that is mapped from the page on, for the others to fault
 * too. It fails where the page is not mapped.
 */
static void discard(struct actor *w)
{
	const struct view *v = w->v;
	size_t bytes = (PAGES - w->page) * v->f->step;

	if (!v->private)
		madvise(w->at, bytes, MADV_DONTNEED);
	else if (!madvise(w->at, spf_page, MADV_DONTNEED))
		w->v->copy[w->page].kind = NO_COPY;
}

static void own_op(struct actor *w)
{
	switch (spf_rand(&w->rng) & 15) {
	case 0 ... 2:
		actor_look(w);
		break;
	case 3 ... 5:
		compare(w);
		break;
	case 6 ... 9:
		actor_store(w);
		break;
	case 10 ... 11:
		store_by_pwrite(w);
		break;
	case 12 ... 14:
		discard(w);
		break;
	default:
		rewrite(w);
	}
}

/* On any page, what its owner is not at. */
static void other_op(struct actor *w)
{
	if (spf_rand(&w->rng) & 1)
		actor_look(w);
	else
		actor_look_page(w);
}

void actor_at(struct actor *w, struct view *v, size_t page, int side)
{
	w->v = v;
	w->page = page;
	w->side = side;
	w->at = v->base[side] + page * v->f->step;
}

static void step(struct actor *w)
{
	uint64_t rnd = spf_rand(&w->rng);
	struct file *f = &files[(rnd >> 8) % nr_files];
	struct view *v = &f->view[(rnd >> 16) % WRITER_VIEWS][rnd >> 4 & 1];
	size_t page = (rnd >> 24) % PAGES;
	int i;

	w->own = rnd & 7;
	if (w->own)
		page = page / nr_writers * nr_writers + w->id;
	actor_at(w, v, page, v->base[1] ? rnd >> 40 & 1 : 0);
	for (i = 0; i < 4; i++)
		actor_try(w, w->own ? own_op : other_op);
	w->steps++;
}

static void *owner_thread(void *arg)
{
	while (!stopping)
		step(arg);
	return NULL;
}

bool actor_try(struct actor *w, void (*op)(struct actor *w))
{
	guard.at = w->at;
	if (sigsetjmp(guard.jump, 0)) {
		guard.armed = false;
		failed(w, guard.sig);
		return false;
	}
	guard.armed = true;
	op(w);
	guard.armed = false;
	return true;
}

void actor_init(struct actor *w, unsigned int id, bool own_files)
{
	w->id = id;
	w->rng = seed + 1000 + id;
	w->own_files = own_files;
	if (pipe(w->pipe))
		die("pipe");
	if (posix_memalign((void **)&w->buf, spf_page, spf_page))
		die("posix_memalign");
}

void writers_start(void)
{
	unsigned int i;

	guard_signals();
	for (i = 0; i < nr_writers; i++) {
		actor_init(&owners[i], i, true);
		if (pthread_create(&threads[i], NULL, owner_thread,
				   &owners[i]))
			die("pthread_create");
	}
}

void writers_join(void)
{
	unsigned int i;

	for (i = 0; i < nr_writers; i++)
		pthread_join(threads[i], NULL);
}

static void by_each_owner(struct view *v, void (*op)(struct actor *w))
{
	int side = (v->state[0] & 7) != OPEN;
	size_t page;

	for (page = 0; page < PAGES; page++) {
		struct actor *w = &owners[page % nr_writers];

		w->own = true;
		actor_at(w, v, page, side);
		actor_try(w, op);
	}
}

static void check_views(void)
{
	unsigned int i, kind;

	for (i = 0; i < nr_files; i++)
		for (kind = 0; kind < WRITER_VIEWS; kind++) {
			by_each_owner(&files[i].view[kind][false], compare);
			by_each_owner(&files[i].view[kind][true], compare);
		}
}

/* The mappings have gone: by pread() alone. */
static void check_files(void)
{
	unsigned int i;

	for (i = 0; i < nr_files; i++)
		by_each_owner(&files[i].view[V_PLAIN][false], read_file);
}

/* After the end of all threads: each page is as its owner left it. */
void writers_check(void)
{
	check_views();
	files_unmap();
	files_drop();
	check_files();
	files_remount();
	check_files();
	files_remove();
}

void writers_report(void)
{
	struct actor sum = { .id = 0 };
	unsigned int i;

	for (i = 0; i < nr_writers; i++) {
		sum.steps += owners[i].steps;
		sum.stores += owners[i].stores;
		sum.pwrites += owners[i].pwrites;
		sum.rewrites += owners[i].rewrites;
		sum.exact += owners[i].exact;
		sum.refused += owners[i].refused;
		sum.beyond += owners[i].beyond;
	}
	tap_diag("owners %u steps %" PRIu64 " stores %" PRIu64 " pwrites %"
		 PRIu64 " direct writes %" PRIu64, nr_writers, sum.steps,
		 sum.stores, sum.pwrites, sum.rewrites);
	tap_diag("words known when checked %" PRIu64 " faults refused %" PRIu64
		 ", beyond the end %" PRIu64, sum.exact, sum.refused,
		 sum.beyond);
}
