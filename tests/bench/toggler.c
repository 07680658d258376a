// SPDX-License-Identifier: GPL-2.0
/*
 * Fresh pages a second that one thread touches, alone and while another thread
 * protects and unprotects memory that the first does not use. By the wall
 * clock: under emulation only the ratio of two kernels counts.
 *
 * Prints: metric value
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spf.h"

#define HELD_BYTES	(64UL << 20)
#define AREA_BYTES	(8UL << 20)

static volatile bool stop;

static void *toggle(void *arg)
{
	char *held = arg;

	while (!stop)
		if (mprotect(held, HELD_BYTES, PROT_READ) ||
		    mprotect(held, HELD_BYTES, PROT_READ | PROT_WRITE))
			die("mprotect of %lu bytes", HELD_BYTES);
	return NULL;
}

static double faults_per_second(char *area, double seconds)
{
	uint64_t begin = now_ns();
	double passed;
	unsigned long n = 0;
	size_t i;

	do {
		if (madvise(area, AREA_BYTES, MADV_DONTNEED))
			die("MADV_DONTNEED");
		for (i = 0; i < AREA_BYTES; i += spf_page) {
			touch_write(area + i, 1);
			n++;
			passed = (now_ns() - begin) / 1e9;
			if (passed >= seconds)
				break;
		}
	} while (passed < seconds);
	return n / passed;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0;
	char *held, *area;
	pthread_t thread;
	size_t i;

	if (argc != 2 || seconds <= 0) {
		fprintf(stderr, "usage: toggler SECONDS\n");
		return 2;
	}
	spf_init();
	held = area_map(HELD_BYTES);
	area = area_map(AREA_BYTES);
	for (i = 0; i < HELD_BYTES; i += spf_page)
		touch_write(held + i, 1);
	for (i = 0; i < AREA_BYTES; i += spf_page)
		touch_write(area + i, 1);

	printf("alone_faults_per_s\t%.0f\n", faults_per_second(area, seconds));
	if (pthread_create(&thread, NULL, toggle, held))
		die("pthread_create");
	printf("beside_mprotect_faults_per_s\t%.0f\n",
	       faults_per_second(area, seconds));
	stop = true;
	pthread_join(thread, NULL);
	return 0;
}
