// SPDX-License-Identifier: GPL-2.0
#include <assert.h>
#include <stddef.h>
#include <sys/mman.h>

#include "lines.h"

#define LINE_SHIFT	6
#define LINES		(1UL << (36 - LINE_SHIFT))	/* of 64 GB */

struct line {
	uint8_t holders;	/* a bit a CPU */
	uint8_t modified;	/* one of them has changed it: it alone has it */
};

static struct line *lines;

bool lines_init(void)
{
	lines = mmap(NULL, LINES * sizeof(*lines), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return lines != MAP_FAILED;
}

void lines_forget(void)
{
	madvise(lines, LINES * sizeof(*lines), MADV_DONTNEED);
}

static struct line *line_of(uint64_t addr)
{
	assert(addr >> LINE_SHIFT < LINES);
	return &lines[addr >> LINE_SHIFT];
}

/* A line that others have unchanged comes from memory: that is no transfer. */
bool lines_load(unsigned int cpu, uint64_t addr)
{
	struct line *line = line_of(addr);
	bool moves = line->modified && !(line->holders & 1 << cpu);

	if (moves)
		line->modified = false;
	line->holders |= 1 << cpu;
	return moves;
}

bool lines_store(unsigned int cpu, uint64_t addr)
{
	struct line *line = line_of(addr);
	bool moves = line->holders & ~(1 << cpu);

	line->holders = 1 << cpu;
	line->modified = true;
	return moves;
}
