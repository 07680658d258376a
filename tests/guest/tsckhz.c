// SPDX-License-Identifier: GPL-2.0
/*
 * Prints how many thousand times a second this machine's time stamp counter steps: of
 * the host, for an emulated guest has the same one, and would have to measure it at
 * boot by a timer that a loaded host serves late.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__
#include <x86intrin.h>

#define TRIES	1000

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Time and counter at one moment: of many tries the one that took least. */
static void sample(uint64_t *ns, uint64_t *tsc)
{
	uint64_t least = UINT64_MAX;
	int i;

	for (i = 0; i < TRIES; i++) {
		uint64_t before = __rdtsc(), time = now(), after = __rdtsc();

		if (after - before >= least)
			continue;
		least = after - before;
		*ns = time;
		*tsc = before + least / 2;
	}
}

int main(void)
{
	uint64_t ns[2], tsc[2];

	sample(&ns[0], &tsc[0]);
	usleep(100000);
	sample(&ns[1], &tsc[1]);
	printf("%.0f\n", (tsc[1] - tsc[0]) * 1e6 / (ns[1] - ns[0]));
	return 0;
}
#else
int main(void)
{
	return 1;
}
#endif
