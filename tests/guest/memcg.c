// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memcg.h"
#include "spf.h"

#define ROOT	"/tmp/cgroup"
#define GROUP	ROOT "/spf"
/* More events than the kernel keeps for later, on eight CPUs. */
#define PAGES	1024
#define TRIES	20

static int stat_fd = -1;
static char *scratch;
static uint64_t provoked;	/* faults, by this file */

void memcg_join(void)
{
	mkdir(ROOT, 0700);
	/* Either may have been done by an earlier program: good. */
	mount("cgroup2", ROOT, "cgroup2", 0, NULL);
	mkdir(GROUP, 0700);
	if (spf_write_file(ROOT "/cgroup.subtree_control", "+memory") ||
	    spf_write_file(GROUP "/cgroup.procs", "0"))
		return;
	stat_fd = open(GROUP "/memory.stat", O_RDONLY | O_CLOEXEC);
	scratch = area_map(PAGES * spf_page);
	memcg_pgfault();
}

bool memcg_joined(void)
{
	return stat_fd >= 0;
}

static uint64_t read_pgfault(void)
{
	static char text[8192];
	ssize_t n = pread(stat_fd, text, sizeof(text) - 1, 0);
	char *at;

	if (n <= 0)
		die("cannot read " GROUP "/memory.stat");
	text[n] = 0;
	at = strstr(text, "\npgfault ");
	if (!at)
		die("no pgfault in " GROUP "/memory.stat");
	return strtoull(at + strlen("\npgfault "), NULL, 10);
}

/* Takes faults until the kernel adds up what each CPU has counted. */
static uint64_t provoke(void)
{
	struct rusage before, after;

	getrusage(RUSAGE_THREAD, &before);
	write_all(scratch, PAGES, 1);
	if (madvise(scratch, PAGES * spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED");
	getrusage(RUSAGE_THREAD, &after);
	provoked += after.ru_minflt - before.ru_minflt;
	return after.ru_minflt - before.ru_minflt;
}

uint64_t memcg_pgfault(void)
{
	uint64_t last, now, faults;
	int i;

	if (stat_fd < 0)
		return 0;
	provoke();
	now = read_pgfault();
	for (i = 0; i < TRIES; i++) {
		last = now;
		faults = provoke();
		now = read_pgfault();
		/* Whoever else adds up makes the kernel answer at once. */
		if (now - last == faults)
			break;
	}
	return now - provoked;
}
