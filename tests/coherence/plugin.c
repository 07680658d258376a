// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the lines of memory that page faults of several CPUs move from one to another:
 * a plugin of QEMU that sees each load and store of the guest's kernel with its physical
 * address. The CPUs take turns (-accel tcg,thread=single), and so do the faults.
 *
 * The program in the guest marks what is counted (marks.h). A fault that an interrupt
 * hit is left out. For each case that it marks there are these rows, tab separated:
 *	case number faults interrupted
 *	symbol number name transfers
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lines.h"
#include "marks.h"
#include "qemu-plugin.h"
#include "symbols.h"

#define KERNEL		(1UL << 63)	/* its half of the addresses */
#define MAX_TRANSFERS	4096		/* of a fault, more than a page has lines */

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static FILE *out;

static struct {
	bool runs;
	unsigned int number;
	uint64_t faults, interrupted;
} now;

/* The one that is under way. */
static struct {
	bool runs, interrupted;
	unsigned int cpu;
	size_t transfers;
	uint64_t by[MAX_TRANSFERS];	/* addresses of instructions */
} fault;

static void case_begin(void)
{
	size_t i;

	lines_forget();
	for (i = 0; i < symbols_nr; i++)
		symbols[i].transfers = 0;
	now.faults = 0;
	now.interrupted = 0;
	now.number++;
	now.runs = true;
}

static void case_end(void)
{
	size_t i;

	now.runs = false;
	fprintf(out, "case\t%u\t%" PRIu64 "\t%" PRIu64 "\n", now.number, now.faults,
		now.interrupted);
	for (i = 0; i < symbols_nr; i++)
		if (symbols[i].transfers)
			fprintf(out, "symbol\t%u\t%s\t%" PRIu64 "\n", now.number,
				symbols[i].name, symbols[i].transfers);
	fflush(out);
}

static void fault_begin(unsigned int cpu)
{
	fault.runs = true;
	fault.interrupted = false;
	fault.cpu = cpu;
	fault.transfers = 0;
}

static void fault_end(void)
{
	size_t i;

	fault.runs = false;
	if (fault.interrupted) {
		now.interrupted++;
		return;
	}
	now.faults++;
	for (i = 0; i < fault.transfers; i++)
		symbol_of(fault.by[i])->transfers++;
}

static void on_mark(unsigned int cpu, void *data)
{
	switch ((enum mark)(uintptr_t)data) {
	case MARK_CASE:
		case_begin();
		break;
	case MARK_FAULT:
		fault_begin(cpu);
		break;
	case MARK_FAULT_END:
		fault_end();
		break;
	case MARK_CASE_END:
		case_end();
		break;
	case MARKS:
		break;
	}
}

static void on_interrupt(unsigned int cpu, void *data)
{
	(void)data;
	if (cpu == fault.cpu)
		fault.interrupted = true;
}

/*
 * Does this access move a line? An instruction that loads and stores, as the atomic ones,
 * gets the line for both at once: its store is none if its load was one.
 */
static bool access_moves(unsigned int cpu, bool store, uint64_t addr, uint64_t insn)
{
	static struct access {
		unsigned int cpu;
		uint64_t addr, insn;
	} loaded;
	struct access this = { .cpu = cpu, .addr = addr, .insn = insn };
	bool moves = store ? lines_store(cpu, addr) : lines_load(cpu, addr);

	if (store && !memcmp(&this, &loaded, sizeof(this)))
		moves = false;
	memset(&loaded, 0, sizeof(loaded));
	if (moves && !store)
		loaded = this;
	return moves;
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		      void *data)
{
	uint64_t insn = (uintptr_t)data;
	struct qemu_plugin_hwaddr *at;

	if (!now.runs)
		return;
	at = qemu_plugin_get_hwaddr(info, vaddr);
	if (!at || qemu_plugin_hwaddr_is_io(at))
		return;
	if (!access_moves(cpu, qemu_plugin_mem_is_store(info),
			  qemu_plugin_hwaddr_phys_addr(at), insn) ||
	    !fault.runs || cpu != fault.cpu)
		return;
	assert(fault.transfers < MAX_TRANSFERS);
	fault.by[fault.transfers++] = insn;
}

/* The mark that an instruction is; MARKS: none. */
static enum mark mark_of(const struct qemu_plugin_insn *insn)
{
	static const size_t opcode = sizeof(MARK_OPCODE) - 1;
	const char *bytes = qemu_plugin_insn_data(insn);
	uint32_t address;

	if (qemu_plugin_insn_size(insn) != opcode + sizeof(address) ||
	    memcmp(bytes, MARK_OPCODE, opcode))
		return MARKS;
	memcpy(&address, bytes + opcode, sizeof(address));
	address -= MARK_MAGIC;
	return address < MARKS ? address : MARKS;
}

static void watch_user(struct qemu_plugin_insn *insn)
{
	enum mark m = mark_of(insn);

	if (m != MARKS)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark,
						       QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)m);
}

static void watch_kernel(struct qemu_plugin_insn *insn, uint64_t addr)
{
	struct symbol *symbol = symbol_of(addr);

	if (!symbol)
		return;
	qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
					 QEMU_PLUGIN_MEM_RW, (void *)addr);
	if (symbol_interrupts(symbol, addr))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_interrupt,
						       QEMU_PLUGIN_CB_NO_REGS, NULL);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb), i;

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t addr = qemu_plugin_insn_vaddr(insn);

		if (addr & KERNEL)
			watch_kernel(insn, addr);
		else
			watch_user(insn);
	}
}

/* The value of the argument "key=value"; NULL if it is another. */
static const char *value_of(const char *arg, const char *key)
{
	size_t len = strlen(key);

	return !strncmp(arg, key, len) && arg[len] == '=' ? arg + len + 1 : NULL;
}

static int refuse(const char *why, const char *what)
{
	fprintf(stderr, "coherence: %s %s\n", why, what);
	return 1;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
					   const qemu_info_t *info, int argc,
					   char **argv)
{
	const char *map = NULL, *file = NULL;
	int i;

	for (i = 0; i < argc; i++) {
		map = map ?: value_of(argv[i], "map");
		file = file ?: value_of(argv[i], "out");
	}
	if (!map || !file)
		return refuse("arguments wanted:", "map=System.map,out=FILE");
	if (strcmp(info->target_name, "x86_64") || !info->system_emulation)
		return refuse("only for guests of x86_64, not", info->target_name);
	if (info->system.max_vcpus > LINES_CPUS)
		return refuse("more CPUs than it can tell apart", "(8)");
	if (!symbols_read(map))
		return refuse("no functions in", map);
	if (!lines_init())
		return refuse("no address space for", "the directory of lines");
	out = fopen(file, "we");
	if (!out)
		return refuse("cannot write", file);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
