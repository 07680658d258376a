// SPDX-License-Identifier: GPL-2.0
/* The mapping that the windows of races are about. See windows.h. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "windows.h"

char *area;
size_t pages;

size_t area_bytes(void)
{
	return pages * spf_page;
}

void populate(char *at, size_t n, int advice)
{
	if (madvise(at, n * spf_page, advice))
		die("MADV_POPULATE of %zu pages at %p", n, at);
}

void forget(char *at, size_t n)
{
	if (madvise(at, n * spf_page, MADV_DONTNEED))
		die("MADV_DONTNEED of %zu pages at %p", n, at);
}

void forget_area(void)
{
	forget(area, pages);
}

char *of_table(size_t i)
{
	return area + i * spf_table;
}

void protect(char *at, size_t n, int prot)
{
	if (mprotect(at, n * spf_page, prot))
		die("mprotect of %zu pages at %p", n, at);
}

void move(char *from, char *to)
{
	if (mremap(from, area_bytes(), area_bytes(),
		   MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		die("mremap of %zu pages from %p to %p", pages, from, to);
}

void map_pages(char *at, size_t n)
{
	map_at(at, n * spf_page, RW);
	madvise(at, n * spf_page, MADV_NOHUGEPAGE);
}

void take_area(size_t n)
{
	pages = n;
	area = arena_take(area_bytes());
	map_pages(area, pages);
	populate(area, pages, MADV_POPULATE_WRITE);
	forget(area, pages);
}

const char *take_small_area(void)
{
	take_area(MAX_FAULTS);
	return NULL;
}

void drop_area(void)
{
	area_unmap(area, area_bytes());
}

bool store_at(char *first, size_t i)
{
	return try_store(page(first, i), fault_value(i));
}

bool store_in_area(size_t i)
{
	return store_at(area, i);
}

bool store_in_few(size_t i)
{
	return i < FEW_PAGES && store_in_area(i);
}

bool touched(size_t i)
{
	return i <= faults_done && i < MAX_FAULTS;
}

bool stores_refused(char *first)
{
	size_t i;

	for (i = 0; touched(i); i++) {
		if (!try_store(page(first, i), 0))
			continue;
		tap_diag("page %zu can be written", i);
		return false;
	}
	return true;
}

bool stores_found(char *first)
{
	uint64_t value;
	size_t i;

	for (i = 0; i < faults_done; i++)
		if (!try_load(page(first, i), &value) ||
		    !found("stored", i, value, fault_value(i)))
			return false;
	return true;
}
