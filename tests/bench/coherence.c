// SPDX-License-Identifier: GPL-2.0
/*
 * Lines of memory that faults on several CPUs move between these, counted by the plugin
 * of QEMU in tests/coherence. The CPUs fault in turn, one fault each, in page tables of
 * their own, so that only what the kernel shares between them can move: all in one VMA, or
 * in a VMA each.
 *
 * Prints: fault vma cpus faults
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "marks.h"
#include "spf.h"

#define MAX_CPUS	8
#define WARM_UP		64	/* faults of each CPU before those that count */
#define FAULTS		448

/*
 * anon_write takes pages that its CPU gave back before, as a program does that maps,
 * touches and unmaps memory all the time. For anon_grow they come from the zone: it runs
 * before any of its CPUs, but for the last, has given pages back.
 */
static const struct kind {
	const char *name;
	bool writes, own_pages;
} kinds[] = {
	{ .name = "anon_read" },
	{ .name = "anon_grow", .writes = true },
	{ .name = "anon_write", .writes = true, .own_pages = true },
};

static const struct kind *kind;
static unsigned int cpus;
static char *slice[MAX_CPUS];	/* of each CPU: what one page table maps */
/* Counts the faults of all CPUs. */
static volatile unsigned int turn;
static unsigned int ready;

/* Where CPUs take turns, the emulator then goes on to the next. */
#ifdef __x86_64__
#define relax()	__builtin_ia32_pause()
#else
#define relax()	sched_yield()
#endif

static void run_on(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set))
		die("cannot run on CPU %u", cpu);
}

static void access_page(char *p)
{
	if (kind->writes)
		touch_write(p, 1);
	else
		touch_read(p);
}

/* Page table and anon_vma are there then, no page is. */
static void empty_slice(unsigned int i)
{
	write_all(slice[i], WARM_UP + FAULTS, 1);
	if (madvise(slice[i], spf_table, MADV_DONTNEED))
		die("MADV_DONTNEED");
}

static void *fault_thread(void *arg)
{
	unsigned int me = (uintptr_t)arg, i;
	struct rusage r0, r1;

	run_on(me);
	if (kind->own_pages)
		empty_slice(me);
	getrusage(RUSAGE_THREAD, &r1);
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	getrusage(RUSAGE_THREAD, &r0);
	for (i = 0; i < WARM_UP + FAULTS; i++) {
		while (turn != i * cpus + me)
			relax();
		if (i < WARM_UP) {
			access_page(page(slice[me], i));
		} else {
			mark(MARK_FAULT);
			access_page(page(slice[me], i));
			mark(MARK_FAULT_END);
		}
		turn++;
	}
	while (turn != (WARM_UP + FAULTS) * cpus)	/* its end would disturb */
		relax();
	getrusage(RUSAGE_THREAD, &r1);
	if (r1.ru_minflt - r0.ru_minflt != WARM_UP + FAULTS)
		die("%d accesses took %ld faults", WARM_UP + FAULTS,
		    r1.ru_minflt - r0.ru_minflt);
	return NULL;
}

static void map_slices(bool own)
{
	unsigned int i;

	for (i = 0; i < cpus; i++) {
		if (own)
			slice[i] = area_map(spf_table);
		else
			slice[i] = i ? slice[0] + i * spf_table :
				   area_map(cpus * spf_table);
		if (!kind->own_pages)
			empty_slice(i);
	}
}

static void unmap_slices(bool own)
{
	unsigned int i;

	if (!own)
		area_unmap(slice[0], cpus * spf_table);
	else
		for (i = 0; i < cpus; i++)
			area_unmap(slice[i], spf_table);
}

static void measure(bool own)
{
	pthread_t thread[MAX_CPUS];
	unsigned int i;

	map_slices(own);
	turn = -1;
	ready = 0;
	for (i = 0; i < cpus; i++)
		if (pthread_create(&thread[i], NULL, fault_thread,
				   (void *)(uintptr_t)i))
			die("pthread_create");
	while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) != cpus)
		relax();
	mark(MARK_CASE);
	turn = 0;
	for (i = 0; i < cpus; i++)
		pthread_join(thread[i], NULL);
	mark(MARK_CASE_END);
	printf("%s\t%s\t%u\t%u\n", kind->name, own ? "own" : "one", cpus,
	       FAULTS * cpus);
	unmap_slices(own);
}

int main(void)
{
	unsigned int most = sysconf(_SC_NPROCESSORS_ONLN);
	int own;

	spf_init();
	if (most > MAX_CPUS)
		most = MAX_CPUS;
	run_on(most - 1);
	for (kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++)
		for (own = 0; own < 2; own++)
			for (cpus = 1; cpus <= most; cpus *= 2)
				measure(own);
	return 0;
}
