/* SPDX-License-Identifier: GPL-2.0 */
/* The memory cgroup that a program puts itself into, and what it counts. */
#ifndef MEMCG_H
#define MEMCG_H

#include <stdbool.h>
#include <stdint.h>

/* Once, before the program starts a thread. */
void memcg_join(void);
/* Was there a memory controller? */
bool memcg_joined(void);
/*
 * pgfault of its memory.stat, 0 without.  Takes faults itself, to have all of them
 * added up, which do not count here.
 */
uint64_t memcg_pgfault(void);

#endif
