// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kind.h"
#include "memcg.h"

#define HANDLED_MIN(n)	((n) * 99 / 100)
/* Faults of other processes: the shell that waits for this program. */
#define FOREIGN		32

static struct spf_stat before, delta;
static struct rusage ru0, ru1;

static uint64_t memcg_before;

/* Of all rounds of the kind that is under way. */
static struct sum {
	struct spf_stat stat;
	uint64_t min, maj, memcg;
} sum;

void kind_init(void)
{
	memcg_join();
	spf_second_thread();
}

void kind_begin(void)
{
	memcg_before = memcg_pgfault();
	spf_read(&before);
	getrusage(RUSAGE_THREAD, &ru0);
}

void kind_end(void)
{
	int i;

	getrusage(RUSAGE_THREAD, &ru1);
	spf_delta(&before, &delta);
	sum.memcg += memcg_pgfault() - memcg_before;
	for (i = 0; i < SPF_NR; i++)
		sum.stat.v[i] += delta.v[i];
	sum.min += ru1.ru_minflt - ru0.ru_minflt;
	sum.maj += ru1.ru_majflt - ru0.ru_majflt;
}

uint64_t kind_faults(void)
{
	return sum.min;
}

void kind_report(const char *kind, uint64_t n, bool contents)
{
	uint64_t pgfault = sum.stat.v[SPF_PGFAULT];
	bool ok = true;

	if (spf_present())
		ok = tap_ok(sum.stat.v[SPF_HANDLED] >= HANDLED_MIN(n),
			    "%s: %" PRIu64 " of %" PRIu64 " handled", kind,
			    sum.stat.v[SPF_HANDLED], n);
	else
		tap_skip("no speculative_pgfault in /proc/vmstat",
			 "%s: handled", kind);
	ok &= tap_ok(sum.min == n && !sum.maj && pgfault >= n &&
		     pgfault <= n + FOREIGN,
		     "%s: accounted once (min_flt %" PRIu64 " maj_flt %" PRIu64
		     " pgfault %" PRIu64 " for %" PRIu64 ")", kind, sum.min,
		     sum.maj, pgfault, n);
	if (memcg_joined())
		ok &= tap_ok(sum.memcg >= n && sum.memcg <= n + FOREIGN,
			     "%s: accounted once to its memcg (%" PRIu64 ")",
			     kind, sum.memcg);
	else
		tap_skip("no memory controller", "%s: memcg", kind);
	ok &= tap_ok(contents, "%s: contents", kind);
	if (!ok)
		spf_diag(&sum.stat);
	memset(&sum, 0, sizeof(sum));
}

void kind_skip(const char *kind, const char *why)
{
	tap_skip(why, "%s: handled", kind);
	tap_skip(why, "%s: accounted once", kind);
	tap_skip(why, "%s: memcg", kind);
	tap_skip(why, "%s: contents", kind);
	memset(&sum, 0, sizeof(sum));
}

void kind_warm_up(void)
{
	struct sum saved = sum;

	kind_begin();
	kind_end();
	sum = saved;
}

char *empty_area(size_t pages)
{
	char *area = area_map(pages * spf_page);

	write_all(area, pages, 1);
	if (madvise(area, pages * spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED");
	return area;
}

bool all_zero(char *area, size_t pages)
{
	size_t i;

	for (i = 0; i < pages; i++)
		if (!page_is_zero(page(area, i)))
			return false;
	return true;
}

char *stamped_area(size_t pages)
{
	char *area = area_map(pages * spf_page);
	size_t i;

	for (i = 0; i < pages; i++)
		page_stamp(page(area, i), i);
	return area;
}

bool all_stamped(char *area, size_t pages)
{
	size_t i;

	for (i = 0; i < pages; i++)
		if (!page_is_stamped(page(area, i), i))
			return false;
	return true;
}

static char twin_ask(struct twin *t, char c)
{
	if (write(t->to, &c, 1) != 1 || read(t->from, &c, 1) != 1)
		die("the forked child does not answer");
	return c;
}

/* The child answers 'v', verify, by 'v' or 'x', and all else by the same. */
static void twin_run(int from, int to, char *area, size_t pages)
{
	char c;

	while (read(from, &c, 1) == 1) {
		if (c == 'v' && !all_stamped(area, pages))
			c = 'x';
		if (write(to, &c, 1) != 1)
			break;
	}
	_exit(0);
}

void twin_start(struct twin *t, char *area, size_t pages)
{
	int down[2], up[2];

	if (pipe(down) || pipe(up))
		die("pipe");
	t->pid = fork();
	if (t->pid < 0)
		die("fork");
	if (!t->pid) {
		close(down[1]);
		twin_run(down[0], up[1], area, pages);
	}
	close(down[0]);
	close(up[1]);
	t->to = down[1];
	t->from = up[0];
	/* Twice: the second time its loop has all its pages. */
	twin_ask(t, 'w');
	twin_ask(t, 'w');
	kind_warm_up();
}

bool twin_verify(struct twin *t)
{
	return twin_ask(t, 'v') == 'v';
}

bool twin_end(struct twin *t)
{
	bool good = twin_verify(t);
	int status;

	close(t->to);
	if (waitpid(t->pid, &status, 0) != t->pid)
		die("waitpid");
	close(t->from);
	return good && WIFEXITED(status) && !WEXITSTATUS(status);
}
