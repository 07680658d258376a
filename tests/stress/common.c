// SPDX-License-Identifier: GPL-2.0
/* What the stress tests share: errors, address space, children. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stress.h"

/* Far below where mmap() puts what has no address of its own. */
#define ARENA		0x1000000000UL
#define MAX_PRINTED	10

/* What a child found, in memory that it shares with its parent. */
struct finding {
	uint64_t at, expected, found;
	char what[64];
};

volatile bool stopping;
unsigned int nr_writers;
unsigned int nr_cpus;
uint64_t errors;
uint64_t seed;

static char *arena_next = (char *)ARENA;
static struct finding *finding;

void data_error(const char *where, const void *at, uint64_t expected,
		uint64_t found, const char *what)
{
	if (__atomic_add_fetch(&errors, 1, __ATOMIC_SEQ_CST) > MAX_PRINTED)
		return;
	tap_diag("ERROR seed %" PRIu64 " %s, address %p: %s: expected %016"
		 PRIx64 ", found %016" PRIx64, seed, where, at, what, expected,
		 found);
}

void pause_random(uint64_t *rng, unsigned int max_us)
{
	uint64_t r = spf_rand(rng);
	struct timespec ts = { .tv_nsec = (r >> 8) % (max_us * 1000ULL) };

	if (r & 1)
		nanosleep(&ts, NULL);
}

/* Aligned so that whole page tables can move. */
char *arena_take(size_t bytes)
{
	size_t align = spf_table;
	char *at;

	while (2 * align <= bytes)
		align *= 2;
	at = (char *)(((uintptr_t)arena_next + align - 1) & -align);
	arena_next = at + bytes + 2 * spf_table;
	return at;
}

void map_at(char *at, size_t bytes, int prot)
{
	if (mmap(at, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
		 MAP_NORESERVE, -1, 0) != at)
		die("mmap of %zu bytes at %p", bytes, at);
}

bool kernel_store(const int pipe[2], volatile uint64_t *at, uint64_t v)
{
	uint64_t drop;

	if (write(pipe[1], &v, sizeof(v)) != sizeof(v))
		die("write to a pipe");
	if (read(pipe[0], (void *)at, sizeof(v)) == sizeof(v))
		return true;
	if (errno != EFAULT ||
	    read(pipe[0], &drop, sizeof(drop)) != sizeof(drop))
		die("read of a pipe");
	return false;
}

void children_init(void)
{
	finding = mmap(NULL, spf_page, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (finding == MAP_FAILED)
		die("mmap");
}

void child_error(const volatile void *at, uint64_t expected, uint64_t found,
		 const char *what)
{
	finding->at = (uintptr_t)at;
	finding->expected = expected;
	finding->found = found;
	strncpy(finding->what, what, sizeof(finding->what) - 1);
	_exit(1);
}

void reap(const struct adversary *a, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		data_error(a->name, (void *)(uintptr_t)finding->at,
			   finding->expected, finding->found, finding->what);
	else
		data_error(a->name, NULL, 0, status, "child's wait status");
}

__thread struct guard guard;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	static const char msg[] = "Bail out! unexpected signal\n";
	char *addr = info->si_addr;

	(void)context;
	if (!guard.armed || addr < guard.at || addr >= guard.at + spf_page) {
		if (write(STDOUT_FILENO, msg, sizeof(msg) - 1) < 0)
			_exit(4);
		_exit(3);
	}
	guard.sig = sig;
	siglongjmp(guard.jump, 1);
}

void guard_signals(void)
{
	struct sigaction sa = {
		.sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}
