/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of the kernel, by its System.map, and what each is blamed for. */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbol {
	uint64_t addr;
	uint64_t transfers;
	char name[64];
};

extern struct symbol *symbols;
extern size_t symbols_nr;

bool symbols_read(const char *system_map);
/* The function that an instruction of the kernel is in; NULL below the first. */
struct symbol *symbol_of(uint64_t addr);
/* Does an interrupt begin at this address? */
bool symbol_interrupts(const struct symbol *symbol, uint64_t addr);

#endif
