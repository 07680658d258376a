// SPDX-License-Identifier: GPL-2.0
/* The stress tests' options, their adversaries' threads, their verdict. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

#define GRACE		180	/* seconds to come to an end */

static unsigned int nr_asked;

/* Where a thread is, of user space and of the kernel. */
static void tell_where(const char *tid, const char *what)
{
	char path[64], text[2048];
	char *line, *save = NULL;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", tid, what);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		dprintf(STDOUT_FILENO, "# %s %s: %s\n", tid, what, line);
}

/* Who hangs tells where; nothing that is called here waits for another thread. */
static void on_alarm(int sig)
{
	static const char msg[] = "Bail out! the threads do not end: hang\n";
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	(void)sig;
	while (tasks && (task = readdir(tasks))) {
		if (task->d_name[0] == '.')
			continue;
		tell_where(task->d_name, "syscall");
		tell_where(task->d_name, "stack");
	}
	if (write(STDOUT_FILENO, msg, sizeof(msg) - 1) < 0)
		_exit(4);
	_exit(3);
}

static void *adversary_thread(void *arg)
{
	struct adversary *a = arg;

	/* There are many of them: leave time to the writers. */
	setpriority(PRIO_PROCESS, 0, 10);
	while (!stopping) {
		a->op(a);
		a->ops++;
		pause_random(&a->rng, 100 * nr_asked);
	}
	return NULL;
}

/* Marks the adversaries of a comma-separated list. */
static bool ask_for(char *list)
{
	char *name, *save = NULL;
	size_t i;

	for (name = strtok_r(list, ",", &save); name;
	     name = strtok_r(NULL, ",", &save)) {
		for (i = 0; i < nr_adversaries; i++)
			if (!strcmp(name, adversaries[i].name))
				break;
		if (i == nr_adversaries)
			return false;
		adversaries[i].asked = true;
	}
	return true;
}

static int usage(void)
{
	size_t i;

	fprintf(stderr, "usage: %s [-s SECONDS] [-S SEED] [-t LIST]\nLIST:",
		program_invocation_short_name);
	for (i = 0; i < nr_adversaries; i++)
		fprintf(stderr, " %s", adversaries[i].name);
	fprintf(stderr, "\n");
	return 2;
}

static void report(const struct spf_stat *delta, const char *missing)
{
	const char *name = program_invocation_short_name;
	const char *idle = NULL;
	unsigned int i;

	writers_report();
	for (i = 0; i < nr_adversaries; i++) {
		if (!adversaries[i].asked)
			continue;
		tap_diag("adversary %s operations %" PRIu64,
			 adversaries[i].name, adversaries[i].ops);
		if (!adversaries[i].ops)
			idle = adversaries[i].name;
	}
	spf_diag(delta);
	if (errors)
		tap_ok(false, "%s: %" PRIu64 " data errors, seed %" PRIu64,
		       name, errors, seed);
	else if (missing)
		tap_skip("this kernel lacks what it needs", "%s: %s", name,
			 missing);
	else if (idle)
		tap_skip("no operation", "%s: adversary %s", name, idle);
	else if (!delta->v[SPF_HANDLED])
		tap_skip("no speculative fault happened", "%s: no data error",
			 name);
	else
		tap_ok(true, "%s: no data error", name);
}

/* Returns the name of an adversary that was asked for and cannot be had. */
static const char *set_up(bool all)
{
	const char *missing = NULL;
	size_t i;

	for (i = 0; i < nr_adversaries; i++) {
		struct adversary *a = &adversaries[i];

		a->rng = seed + i;
		if (all ? a->alone : !a->asked)
			continue;
		a->asked = a->setup(a);
		nr_asked += a->asked;
		if (a->asked)
			continue;
		tap_diag("adversary %s: this kernel lacks what it needs",
			 a->name);
		if (!all)
			missing = a->name;
	}
	return missing;
}

static void run(unsigned int seconds)
{
	pthread_t *threads = calloc(nr_adversaries, sizeof(*threads));
	uint64_t end = now_ns() + seconds * 1000000000ULL;
	size_t i;

	if (!threads)
		die("calloc");
	writers_start();
	for (i = 0; i < nr_adversaries; i++)
		if (adversaries[i].asked &&
		    pthread_create(&threads[i], NULL, adversary_thread,
				   &adversaries[i]))
			die("pthread_create");
	/* By the clock: on a busy machine a sleep takes longer than it was asked to. */
	while (now_ns() < end && !errors)
		sleep(1);
	stopping = true;
	alarm(GRACE);
	for (i = 0; i < nr_adversaries; i++)
		if (adversaries[i].asked)
			pthread_join(threads[i], NULL);
	writers_join();
	for (i = 0; i < nr_adversaries; i++)
		if (adversaries[i].asked && adversaries[i].finish)
			adversaries[i].finish(&adversaries[i]);
	writers_check();
	free(threads);
}

int main(int argc, char **argv)
{
	struct spf_stat before, delta;
	unsigned int seconds = 10;
	const char *missing;
	bool all = true;
	int opt;

	seed = time(NULL);
	while ((opt = getopt(argc, argv, "s:S:t:x")) != -1) {
		switch (opt) {
		case 's':
			seconds = strtoul(optarg, NULL, 0);
			break;
		case 'S':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			all = false;
			if (!ask_for(optarg))
				return usage();
			break;
		case 'x':	/* what the exec adversary starts */
			return 0;
		default:
			return usage();
		}
	}
	if (optind < argc || !seconds)
		return usage();

	spf_init();
	tap_diag("seed %" PRIu64, seed);
	tap_plan(1);
	nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	for (nr_writers = 2; nr_writers < nr_cpus && nr_writers < MAX_WRITERS;)
		nr_writers *= 2;
	mallopt(M_MMAP_THRESHOLD, 0);	/* the heap's end is brk's */
	signal(SIGALRM, on_alarm);
	alarm(seconds + GRACE);
	spf_read(&before);
	missing = set_up(all);
	run(seconds);
	spf_delta(&before, &delta);
	report(&delta, missing);
	return tap_done();
}
