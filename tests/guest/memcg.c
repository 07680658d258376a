// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memcg.h"
#include "spf.h"

#define ROOT	"/tmp/cgroup"
#define GROUP	ROOT "/spf"

static int stat_fd = -1;

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
	memcg_pgfault();
}

bool memcg_joined(void)
{
	return stat_fd >= 0;
}

uint64_t memcg_pgfault(void)
{
	static char text[8192];
	ssize_t n;
	char *at;

	if (stat_fd < 0)
		return 0;
	n = pread(stat_fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		die("cannot read " GROUP "/memory.stat");
	text[n] = 0;
	at = strstr(text, "\npgfault ");
	if (!at)
		die("no pgfault in " GROUP "/memory.stat");
	return strtoull(at + strlen("\npgfault "), NULL, 10);
}
