// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

struct symbol *symbols;
size_t symbols_nr;

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

bool symbols_read(const char *system_map)
{
	FILE *f = fopen(system_map, "re");
	struct symbol s = {};
	char type;

	if (!f)
		return false;
	while (fscanf(f, "%" SCNx64 " %c %63s%*[^\n]", &s.addr, &type, s.name) == 3) {
		if (tolower(type) != 't' && tolower(type) != 'w')
			continue;
		symbols = realloc(symbols, (symbols_nr + 1) * sizeof(s));
		if (!symbols)
			return false;
		symbols[symbols_nr++] = s;
	}
	fclose(f);
	qsort(symbols, symbols_nr, sizeof(s), compare);
	return symbols_nr > 0;
}

struct symbol *symbol_of(uint64_t addr)
{
	size_t low = 0, high = symbols_nr;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (symbols[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? &symbols[low - 1] : NULL;
}

bool symbol_interrupts(const struct symbol *symbol, uint64_t addr)
{
	static const char *const prefixes[] = {
		"asm_sysvec_", "asm_common_interrupt", "asm_spurious_interrupt",
		"asm_exc_nmi", NULL
	};
	const char *const *prefix;

	if (symbol->addr != addr)
		return false;
	for (prefix = prefixes; *prefix; prefix++)
		if (!strncmp(symbol->name, *prefix, strlen(*prefix)))
			return true;
	return false;
}
