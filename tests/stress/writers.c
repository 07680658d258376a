// SPDX-License-Identifier: GPL-2.0
/* Regions, and the writers that own their pages and check them. See stress.h. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stress.h"

#define MAX_REGIONS	32

struct writer {
	pthread_t thread;
	unsigned int id;
	uint64_t rng;
	int pipe[2];		/* for stores that the kernel makes */
	uint64_t steps, stores, signals;
	/* the access under way */
	struct region *r;
	size_t page;
	int side;
	uint64_t state;
	bool store;
	char *at;
};

static struct region regions[MAX_REGIONS];
static unsigned int nr_regions;
static struct writer writers[MAX_WRITERS];

struct region *region_new(const char *name, size_t pages, size_t step)
{
	struct region *r = &regions[nr_regions];

	if (nr_regions == MAX_REGIONS || pages > MAX_PAGES)
		die("region %s is one too many or too large", name);
	r->id = nr_regions++;
	r->name = name;
	r->pages = pages;
	r->step = step;
	r->base[0] = arena_take(region_bytes(r));
	map_at(r->base[0], region_bytes(r), PROT_READ | PROT_WRITE);
	madvise(r->base[0], region_bytes(r), MADV_NOHUGEPAGE);
	return r;
}

/* seq:40 writer:6 region:6 page:6 word:6 */
uint64_t stamp(const struct region *r, size_t page, size_t word, uint64_t seq)
{
	if (!seq)
		return 0;
	return seq << 24 | (uint64_t)(page % nr_writers) << 18 |
	       (uint64_t)r->id << 12 | page << 6 | word;
}

uint64_t stamp_seq(uint64_t value)
{
	return value >> 24;
}

static void where(const struct writer *w, char *buf, size_t len)
{
	snprintf(buf, len, "region %s writer %u page %zu side %d",
		 w->r->name, w->id, w->page, w->side);
}

static void writer_error(const struct writer *w, const void *at,
			 uint64_t expected, uint64_t found, const char *what)
{
	char buf[96];

	where(w, buf, sizeof(buf));
	data_error(buf, at, expected, found, what);
}

static uint64_t state_now(const struct writer *w)
{
	return announced(&w->r->state[w->side]);
}

static void access_begin(struct writer *w, bool store)
{
	w->store = store;
	w->state = state_now(w);
}

/* The access succeeded; v is what was loaded or stored. */
static void access_done(struct writer *w, const void *at, uint64_t v)
{
	enum state s = w->state & 7;

	if (state_now(w) != w->state)
		return;
	if (s == GONE)
		writer_error(w, at, 0, v, "access where nothing is mapped");
	else if (w->store && (s == READONLY || s == ZEROED || s == FILLED))
		writer_error(w, at, 0, v, "store landed in a read-only page");
	else if (s == ZEROED && v)
		writer_error(w, at, 0, v, "new page is not zero");
	else if (s == FILLED && v != FILL)
		writer_error(w, at, FILL, v, "not the file's contents");
}

/* The access raised SIGSEGV or SIGBUS, or EFAULT if the kernel made it. */
static void access_failed(struct writer *w, int sig)
{
	enum state s = w->state & 7;
	bool good;

	w->signals++;
	if (state_now(w) != w->state)
		return;
	if (s == OPEN)
		good = false;
	else if (s == GUARDED)
		good = sig != SIGSEGV;
	else if (s == MOVING)
		good = true;
	else
		good = sig != SIGBUS && (s == GONE || w->store);
	if (!good)
		writer_error(w, w->at, s, sig, "fault in an accessible page");
}

static uint64_t load(struct writer *w, size_t word)
{
	volatile uint64_t *at = word_at(w->at, word);
	uint64_t v;

	access_begin(w, false);
	v = *at;
	access_done(w, (void *)at, v);
	return v;
}

static void check_word(struct writer *w, size_t word)
{
	struct page_state *p = &w->r->page[w->page];
	uint64_t want = stamp(w->r, w->page, word,
			      word < p->done ? p->now : p->before);
	uint64_t v = load(w, word);

	if (v == want || (w->r->lossy && !v) || (w->r->filled && v == FILL))
		return;
	writer_error(w, (void *)word_at(w->at, word), want, v,
		     "wrong contents");
}

/* Goes on with an interrupted writing, or starts the next one. */
static void write_page(struct writer *w)
{
	struct page_state *p = &w->r->page[w->page];
	bool by_kernel = !(spf_rand(&w->rng) & 7);

	if (p->done == WORDS) {
		p->before = p->now;
		p->now = ++p->last;
		p->done = 0;
	}
	while (p->done < WORDS) {
		volatile uint64_t *at = word_at(w->at, p->done);
		uint64_t v = stamp(w->r, w->page, p->done, p->now);

		access_begin(w, true);
		if (by_kernel) {
			if (!kernel_store(w->pipe, at, v)) {
				access_failed(w, 0);
				return;
			}
			by_kernel = false;
		} else {
			*at = v;
		}
		*(volatile unsigned int *)&p->done = p->done + 1;
		access_done(w, (void *)at, v);
	}
	w->stores++;
	__atomic_store_n(&w->r->committed[w->page], p->now, __ATOMIC_RELEASE);
}

/* It fails when the page is not mapped there or is locked. */
static void discard_page(struct writer *w)
{
	struct page_state *p = &w->r->page[w->page];

	if (w->r->keep_even && !(w->page & 1))
		return;
	if (madvise(w->at, spf_page, MADV_DONTNEED))
		return;
	p->now = 0;
	p->before = 0;
	p->done = WORDS;
}

static void step(struct writer *w)
{
	uint64_t rnd = spf_rand(&w->rng);
	struct region *r = &regions[(rnd >> 8) % nr_regions];
	size_t i;

	w->r = r;
	w->page = (rnd >> 16) % (r->pages / nr_writers) * nr_writers + w->id;
	w->side = r->base[1] ? rnd >> 32 & 1 : 0;
	w->at = page_at(r, w->side, w->page);
	w->steps++;
	guard.at = w->at;
	if (sigsetjmp(guard.jump, 0)) {
		guard.armed = false;
		access_failed(w, guard.sig);
		return;
	}
	guard.armed = true;
	if (!(rnd & 3))
		for (i = 0; i < WORDS; i++)
			check_word(w, i);
	else if (rnd & 1)
		check_word(w, (rnd >> 40) % WORDS);
	if (!(rnd >> 2 & 3))
		discard_page(w);
	if (rnd >> 4 & 3)
		write_page(w);
	guard.armed = false;
}

static void *writer_thread(void *arg)
{
	while (!stopping)
		step(arg);
	return NULL;
}

/* After the end of all threads: each page is as its writer left it. */
void writers_check(void)
{
	struct writer *w = &writers[0];
	size_t word;
	unsigned int i;

	for (i = 0; i < nr_regions; i++) {
		w->r = &regions[i];
		w->side = (w->r->state[0] & 7) != OPEN;
		if ((w->r->state[w->side] & 7) != OPEN)
			continue;
		for (w->page = 0; w->page < w->r->pages; w->page++) {
			w->at = page_at(w->r, w->side, w->page);
			for (word = 0; word < WORDS; word++)
				check_word(w, word);
		}
	}
}

void writers_start(void)
{
	unsigned int i;

	guard_signals();

	for (i = 0; i < nr_writers; i++) {
		struct writer *w = &writers[i];

		w->id = i;
		w->rng = seed + 1000 + i;
		if (pipe(w->pipe))
			die("pipe");
		if (nr_regions &&
		    pthread_create(&w->thread, NULL, writer_thread, w))
			die("pthread_create");
	}
}

void writers_join(void)
{
	unsigned int i;

	for (i = 0; i < nr_writers && nr_regions; i++)
		pthread_join(writers[i].thread, NULL);
}

void writers_report(void)
{
	uint64_t steps = 0, stores = 0, signals = 0;
	unsigned int i;

	for (i = 0; i < nr_writers; i++) {
		steps += writers[i].steps;
		stores += writers[i].stores;
		signals += writers[i].signals;
	}
	tap_diag("writers %u steps %" PRIu64 " stamps %" PRIu64
		 " faults refused %" PRIu64, nr_writers, steps, stores,
		 signals);
}
