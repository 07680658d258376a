// SPDX-License-Identifier: GPL-2.0
/*
 * Faults of the kernel on user memory, which system calls fill: FAULTS of each in
 * a process of two threads. See kind.h.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kind.h"

static char *source;		/* a stamped page, always present */
static int from, to;		/* what is written to one comes out of the other */
static aio_context_t aio;

static bool send_source(void)
{
	return write(to, source, spf_page) == (ssize_t)spf_page;
}

static bool fill_read(char *at)
{
	return send_source() && read(from, at, spf_page) == (ssize_t)spf_page;
}

static bool fill_recvmsg(char *at)
{
	struct iovec iov = { at, spf_page };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return send_source() && recvmsg(from, &msg, 0) == (ssize_t)spf_page;
}

static bool fill_preadv(char *at)
{
	struct iovec iov = { at, spf_page };

	return preadv(from, &iov, 1, 0) == (ssize_t)spf_page;
}

static bool fill_aio(char *at)
{
	struct iocb cb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = from,
		.aio_buf = (uintptr_t)at,
		.aio_nbytes = spf_page,
	}, *cbs = &cb;
	struct io_event event;

	return syscall(SYS_io_submit, aio, 1, &cbs) == 1 &&
	       syscall(SYS_io_getevents, aio, 1, 1, &event, NULL) == 1 &&
	       event.res == (int64_t)spf_page;
}

/* Page by page, and each must then hold what the source does. */
static bool fill_all(char *area, bool (*fill)(char *at))
{
	size_t i;

	kind_begin();
	for (i = 0; i < FAULTS; i++)
		if (!fill(page(area, i)))
			break;
	kind_end();
	if (i < FAULTS) {
		tap_diag("page %zu was not filled", i);
		return false;
	}
	for (i = 0; i < FAULTS; i++)
		if (memcmp(page(area, i), source, spf_page))
			return false;
	return true;
}

static void fresh(const char *kind, bool (*fill)(char *at))
{
	char *area = empty_area(FAULTS);

	kind_report(kind, FAULTS, fill_all(area, fill));
	area_unmap(area, FAULTS * spf_page);
}

static void kernel_zero(void)
{
	const ssize_t bytes = FAULTS * spf_page;
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	char *area = empty_area(FAULTS);
	ssize_t n;

	if (fd < 0)
		die("cannot open /dev/zero (mount devtmpfs on /dev first)");
	kind_begin();
	n = read(fd, area, bytes);
	kind_end();
	close(fd);
	kind_report("read(2) of /dev/zero", FAULTS,
		    n == bytes && all_zero(area, FAULTS));
	area_unmap(area, bytes);
}

static void kernel_cow(void)
{
	char *area = stamped_area(FAULTS);
	struct twin twin;
	bool good;

	twin_start(&twin, area, FAULTS);
	good = fill_all(area, fill_read);
	good &= twin_end(&twin);
	kind_report("read(2) of a pipe, COW copy", FAULTS, good);
	area_unmap(area, FAULTS * spf_page);
}

static void kernel_pipe(void)
{
	int fd[2];

	if (pipe(fd))
		die("pipe");
	from = fd[0];
	to = fd[1];
	fresh("read(2) of a pipe", fill_read);
	kernel_cow();
	close(from);
	close(to);
}

static void kernel_socket(void)
{
	const char *kind = "recvmsg(2) of a socket";
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd)) {
		kind_skip(kind, "no CONFIG_UNIX");
		return;
	}
	from = fd[0];
	to = fd[1];
	fresh(kind, fill_recvmsg);
	close(from);
	close(to);
}

static void kernel_file(void)
{
	from = to = memfd_create("source", MFD_CLOEXEC);
	if (from < 0 || !send_source())
		die("memfd_create");
	fresh("preadv(2) of a file", fill_preadv);
	/* Once with nothing to fill: the kernel looks at the ring of the context. */
	if (syscall(SYS_io_setup, 1, &aio) || !fill_aio(source))
		kind_skip("io_submit(2) of a read", "no CONFIG_AIO");
	else
		fresh("io_submit(2) of a read", fill_aio);
	close(from);
}

int main(void)
{
	spf_init();
	spf_no_numa_hints();
	kind_init();
	source = area_map(spf_page);
	page_stamp(source, 0);
	tap_plan(KIND_TESTS * 6);
	kernel_zero();
	kernel_pipe();
	kernel_socket();
	kernel_file();
	return tap_done();
}
