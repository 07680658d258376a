/* SPDX-License-Identifier: GPL-2.0 */
/* What the guest programs share: counters, TAP, sysctl, PRNG, page stamps. */
#ifndef SPF_H
#define SPF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* The counters of /proc/vmstat; the reasons sum to attempts - handled. */
enum spf_counter {
	SPF_PGFAULT,
	SPF_ATTEMPT,
	SPF_HANDLED,
	SPF_NOTFOUND,
	SPF_FIRST_REASON = SPF_NOTFOUND,
	SPF_CHANGED,
	SPF_NOTSUP,
	SPF_NOANON,
	SPF_ACCESS,
	SPF_PMD_NONE,
	SPF_PMD_CHANGED,
	SPF_PTE_LOCK,
	SPF_PTE_NOTSUP,
	SPF_PAGE_CACHE,
	SPF_NOMEM,
	SPF_NOTIFIER,
	SPF_UNSTABLE,
	SPF_NR
};

struct spf_stat {
	uint64_t v[SPF_NR];
};

extern const char *const spf_name[SPF_NR];
extern size_t spf_page;			/* bytes a page */
extern size_t spf_table;		/* bytes that one PTE table maps */

/* Nanoseconds of CLOCK_MONOTONIC; inline, as time is measured around faults. */
static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Call first: page sizes, line buffering, what the kernel offers. */
void spf_init(void);
/* Does this kernel count speculative faults? */
bool spf_present(void);
/* Reads the counters; takes no page fault once it has run. */
void spf_read(struct spf_stat *s);
/* d = now - s */
void spf_delta(const struct spf_stat *s, struct spf_stat *d);
uint64_t spf_reasons(const struct spf_stat *s);
/* Any other counter of /proc/vmstat; 0 if there is none of that name. */
uint64_t spf_vmstat(const char *name);
void spf_diag(const struct spf_stat *d);

/* vm.speculative_page_fault: -errno, or 0 and the value. */
int spf_sysctl_get(int *value);
int spf_sysctl_write(const char *text);
/* For files of /proc and /sys: -errno, or 0. */
int spf_write_file(const char *path, const char *text);

/* For who counts faults: NUMA balancing adds some at odd times. */
void spf_no_numa_hints(void);
/* For who wants a fault for each page in swap. */
void spf_no_swap_readahead(void);

/* Starts a thread that only sleeps, and waits until nobody in the guest faults. */
void spf_second_thread(void);

void tap_plan(int n);
bool tap_ok(bool good, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void tap_skip(const char *why, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void tap_diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The exit status: 0 when no test failed and the plan was kept. */
int tap_done(void);

/* Prints the message with errno and leaves with status 2. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* splitmix64: every seed, 0 included, gives a full-period sequence. */
static inline uint64_t spf_rand(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Fills a page with words that tell the address and the seed. */
void page_stamp(void *page, uint64_t seed);
/* Compares every byte; says where it differs. */
bool page_is_stamped(const void *page, uint64_t seed);
bool page_is_zero(const void *page);

/*
 * An anonymous, private, writable mapping that starts where a PTE table
 * starts, without huge pages and not merged with its neighbours.
 */
char *area_map(size_t bytes);
void area_unmap(char *area, size_t bytes);

/* Makes a RAM disk of the guest its swap space; NULL if there is none. */
const char *swap_on(size_t bytes);
/* How many pages of an area of n have their contents in swap. */
size_t pages_in_swap(const char *area, size_t n);

/*
 * Mounts the other RAM disk as an ext4 file system; NULL if there is none, and the
 * reason to give is NO_EXT4.
 */
const char *ext4_on(void);
#define NO_EXT4	"no ext4 on /dev/ram1 (CONFIG_EXT4_FS, BLK_DEV_RAM_COUNT=2)"

static inline void touch_write(void *p, uint8_t v)
{
	*(volatile uint8_t *)p = v;
}

static inline uint8_t touch_read(const void *p)
{
	return *(const volatile uint8_t *)p;
}

static inline char *page(char *area, size_t i)
{
	return area + i * spf_page;
}

/* One access to each page. */
void read_all(char *area, size_t pages);
void write_all(char *area, size_t pages, uint8_t byte);

#endif
