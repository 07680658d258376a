// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include "spf.h"

#define SYSCTL	"/proc/sys/vm/speculative_page_fault"

const char *const spf_name[SPF_NR] = {
	[SPF_PGFAULT]	  = "pgfault",
	[SPF_ATTEMPT]	  = "spf_attempt",
	[SPF_HANDLED]	  = "speculative_pgfault",
	[SPF_NOTFOUND]	  = "spf_vma_notfound",
	[SPF_CHANGED]	  = "spf_vma_changed",
	[SPF_NOTSUP]	  = "spf_vma_notsup",
	[SPF_NOANON]	  = "spf_vma_noanon",
	[SPF_ACCESS]	  = "spf_vma_access",
	[SPF_PMD_NONE]	  = "spf_pmd_none",
	[SPF_PMD_CHANGED] = "spf_pmd_changed",
	[SPF_PTE_LOCK]	  = "spf_pte_lock",
	[SPF_PTE_NOTSUP]  = "spf_pte_notsup",
	[SPF_PAGE_CACHE]  = "spf_page_cache",
	[SPF_NOMEM]	  = "spf_nomem",
	[SPF_NOTIFIER]	  = "spf_notifier",
	[SPF_UNSTABLE]	  = "spf_unstable",
};

size_t spf_page;
size_t spf_table;

static int vmstat_fd = -1;
static bool found[SPF_NR];
static char text[32768];
static char out[BUFSIZ];
static int planned, run, failed;

void die(const char *fmt, ...)
{
	int e = errno;
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	if (e)
		printf(": %s", strerror(e));
	printf("\n");
	fflush(stdout);
	_exit(2);
}

void spf_init(void)
{
	struct spf_stat s;
	FILE *f;

	setvbuf(stdout, out, _IOLBF, sizeof(out));
	spf_page = sysconf(_SC_PAGESIZE);
	spf_table = 2UL << 20;
	f = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "re");
	if (f) {
		if (fscanf(f, "%zu", &spf_table) != 1)
			spf_table = 2UL << 20;
		fclose(f);
	}
	vmstat_fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	if (vmstat_fd < 0)
		die("cannot open /proc/vmstat (mount /proc first)");
	spf_read(&s);
}

bool spf_present(void)
{
	return found[SPF_HANDLED];
}

static void read_vmstat(void)
{
	ssize_t n = pread(vmstat_fd, text, sizeof(text) - 1, 0);

	if (n <= 0 || n == sizeof(text) - 1)
		die("cannot read /proc/vmstat whole");
	text[n] = 0;
}

void spf_read(struct spf_stat *s)
{
	char *line, *end;
	int i;

	read_vmstat();
	memset(s, 0, sizeof(*s));
	for (line = text; (end = strchr(line, '\n')); line = end + 1) {
		char *space = memchr(line, ' ', end - line);

		if (!space)
			continue;
		*space = 0;
		for (i = 0; i < SPF_NR; i++) {
			if (strcmp(line, spf_name[i]))
				continue;
			s->v[i] = strtoull(space + 1, NULL, 10);
			found[i] = true;
		}
	}
}

void spf_delta(const struct spf_stat *s, struct spf_stat *d)
{
	int i;

	spf_read(d);
	for (i = 0; i < SPF_NR; i++)
		d->v[i] -= s->v[i];
}

uint64_t spf_reasons(const struct spf_stat *s)
{
	uint64_t sum = 0;
	int i;

	for (i = SPF_FIRST_REASON; i < SPF_NR; i++)
		sum += s->v[i];
	return sum;
}

uint64_t spf_vmstat(const char *name)
{
	char key[64];
	char *at;

	/* None that is asked for is in the first line. */
	snprintf(key, sizeof(key), "\n%s ", name);
	read_vmstat();
	at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

void spf_diag(const struct spf_stat *d)
{
	int i;

	for (i = 0; i < SPF_NR; i++)
		if (d->v[i])
			tap_diag("  %-20s %" PRIu64, spf_name[i], d->v[i]);
}

int spf_sysctl_get(int *value)
{
	char buf[16] = "";
	int fd = open(SYSCTL, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return -EIO;
	*value = atoi(buf);
	return 0;
}

int spf_write_file(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int spf_sysctl_write(const char *value)
{
	return spf_write_file(SYSCTL, value);
}

void spf_no_swap_readahead(void)
{
	if (spf_write_file("/proc/sys/vm/page-cluster", "0"))
		die("cannot set vm.page-cluster=0 (run as root)");
}

void spf_no_numa_hints(void)
{
	int ret = spf_write_file("/proc/sys/kernel/numa_balancing", "0");

	if (ret && ret != -ENOENT)
		die("cannot set kernel.numa_balancing=0 (run as root)");
}

static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

void spf_second_thread(void)
{
	struct spf_stat s, d;
	pthread_t thread;
	int tries = 100;

	if (pthread_create(&thread, NULL, idle, NULL))
		die("pthread_create");
	do {
		spf_read(&s);
		usleep(50000);
		spf_delta(&s, &d);
	} while (d.v[SPF_PGFAULT] && tries--);
}

void tap_plan(int n)
{
	planned = n;
	printf("1..%d\n", n);
}

bool tap_ok(bool good, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", good ? "" : "not ", ++run);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	failed += !good;
	return good;
}

void tap_skip(const char *why, const char *fmt, ...)
{
	va_list ap;

	printf("ok %d - ", ++run);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" # SKIP %s\n", why);
}

void tap_diag(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

int tap_done(void)
{
	if (run != planned)
		tap_diag("planned %d tests, ran %d", planned, run);
	fflush(stdout);
	return failed || run != planned;
}

static uint64_t stamp_word(const uint64_t *at, uint64_t seed)
{
	uint64_t state = seed ^ ((uint64_t)(uintptr_t)at << 16);

	return spf_rand(&state);
}

void page_stamp(void *page, uint64_t seed)
{
	uint64_t *w = page;
	size_t i;

	for (i = 0; i < spf_page / sizeof(*w); i++)
		w[i] = stamp_word(w + i, seed);
}

bool page_is_stamped(const void *page, uint64_t seed)
{
	const uint64_t *w = page;
	size_t i;

	for (i = 0; i < spf_page / sizeof(*w); i++) {
		if (w[i] == stamp_word(w + i, seed))
			continue;
		tap_diag("%p: expected %016" PRIx64 ", found %016" PRIx64,
			 (void *)(w + i), stamp_word(w + i, seed), w[i]);
		return false;
	}
	return true;
}

bool page_is_zero(const void *page)
{
	const uint64_t *w = page;
	size_t i;

	for (i = 0; i < spf_page / sizeof(*w); i++) {
		if (!w[i])
			continue;
		tap_diag("%p: expected 0, found %016" PRIx64,
			 (void *)(w + i), w[i]);
		return false;
	}
	return true;
}

/* A table's worth of address space that stays unmapped on either side. */
char *area_map(size_t bytes)
{
	size_t room = bytes + 3 * spf_table;
	char *p = mmap(NULL, room, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *area;

	if (p == MAP_FAILED)
		die("mmap of %zu bytes", room);
	area = (char *)(((uintptr_t)p + 2 * spf_table - 1) & -spf_table);
	munmap(p, area - p);
	munmap(area + bytes, p + room - area - bytes);
	if (mmap(area, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != area)
		die("mmap of %zu bytes at %p", bytes, area);
	madvise(area, bytes, MADV_NOHUGEPAGE);	/* fails without THP: good */
	return area;
}

void area_unmap(char *area, size_t bytes)
{
	if (munmap(area, bytes))
		die("munmap of %zu bytes at %p", bytes, area);
}

const char *swap_on(size_t bytes)
{
	static const char *const devices[] = { "/dev/ram0", "/dev/zram0" };
	static char header[1 << 16];
	off_t size;
	size_t i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		fd = open(devices[i], O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		size = lseek(fd, 0, SEEK_END);
		memset(header, 0, spf_page);
		*(uint32_t *)(header + 1024) = 1;	/* version */
		*(uint32_t *)(header + 1028) = size / spf_page - 1;
		memcpy(header + spf_page - 10, "SWAPSPACE2", 10);
		if (size >= (off_t)bytes &&
		    pwrite(fd, header, spf_page, 0) == (ssize_t)spf_page &&
		    !fsync(fd) && !swapon(devices[i], 0)) {
			close(fd);
			return devices[i];
		}
		close(fd);
	}
	return NULL;
}

size_t pages_in_swap(const char *area, size_t n)
{
	uint64_t *entry = calloc(n, sizeof(*entry));
	off_t at = (uintptr_t)area / spf_page * sizeof(*entry);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ssize_t len = n * sizeof(*entry);
	size_t i, swapped = 0;

	if (!entry || fd < 0 || pread(fd, entry, len, at) != len)
		die("cannot read /proc/self/pagemap");
	close(fd);
	for (i = 0; i < n; i++)
		swapped += entry[i] >> 62 & 1;
	free(entry);
	return swapped;
}

const char *ext4_on(void)
{
	static const char dir[] = "/tmp/ext4";

	if (mkdir(dir, 0700) ||
	    system("mke2fs -F -b 4096 /dev/ram1 >/dev/null 2>&1") ||
	    mount("/dev/ram1", dir, "ext4", 0, NULL))
		return NULL;
	return dir;
}

void read_all(char *area, size_t pages)
{
	size_t i;

	for (i = 0; i < pages; i++)
		touch_read(page(area, i));
}

void write_all(char *area, size_t pages, uint8_t byte)
{
	size_t i;

	for (i = 0; i < pages; i++)
		touch_write(page(area, i), byte);
}
