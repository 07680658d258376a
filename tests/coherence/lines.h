/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which CPU has which 64-byte line of memory, by the rules of a MESI protocol, in
 * caches that never run full.
 */
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stdint.h>

#define LINES_CPUS	8

bool lines_init(void);
/* Nobody has any line. */
void lines_forget(void);
/* True if the line had to come from another CPU, or be taken away from one. */
bool lines_load(unsigned int cpu, uint64_t addr);
bool lines_store(unsigned int cpu, uint64_t addr);

#endif
