// SPDX-License-Identifier: GPL-2.0
/*
 * Plays QEMU for the plugin: has each instruction that it reads translated and executed.
 * A line of input: what it does (mark, run, load, store or both), the CPU, then of a
 * mark its number, else the address of the instruction and that of the access (both
 * hexadecimal), which is the physical address, too.
 *
 * replay TARGET CPUS ARGUMENT...
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marks.h"
#include "qemu-plugin.h"

struct qemu_plugin_insn {
	uint64_t vaddr;
	char bytes[8];
	size_t size;
	qemu_plugin_vcpu_udata_cb_t exec;
	void *exec_data;
	qemu_plugin_vcpu_mem_cb_t mem;
	void *mem_data;
};

struct qemu_plugin_tb {
	struct qemu_plugin_insn *insn;
};

struct qemu_plugin_hwaddr {
	uint64_t addr;
};

static qemu_plugin_vcpu_tb_trans_cb_t translate;
static struct qemu_plugin_hwaddr hwaddr;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   qemu_plugin_vcpu_tb_trans_cb_t cb)
{
	(void)id;
	translate = cb;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    qemu_plugin_vcpu_udata_cb_t cb,
					    enum qemu_plugin_cb_flags flags,
					    void *data)
{
	(void)flags;
	insn->exec = cb;
	insn->exec_data = data;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      qemu_plugin_vcpu_mem_cb_t cb,
				      enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw rw, void *data)
{
	(void)flags;
	(void)rw;
	insn->mem = cb;
	insn->mem_data = data;
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	(void)tb;
	return 1;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t i)
{
	(void)i;
	return tb->insn;
}

const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
	return insn->bytes;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	return insn->size;
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->vaddr;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
	return info == QEMU_PLUGIN_MEM_W;
}

struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info,
						  uint64_t vaddr)
{
	(void)info;
	hwaddr.addr = vaddr;
	return &hwaddr;
}

bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr)
{
	(void)haddr;
	return false;
}

uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr)
{
	return haddr->addr;
}

static void execute(const char *what, unsigned int cpu, uint64_t first, uint64_t addr)
{
	struct qemu_plugin_insn insn = { .vaddr = first, .size = 1 };
	struct qemu_plugin_tb tb = { .insn = &insn };
	uint32_t magic = MARK_MAGIC + first;

	if (!strcmp(what, "mark")) {
		insn.vaddr = 0x400000;
		insn.size = sizeof(insn.bytes);
		memcpy(insn.bytes, MARK_OPCODE, 4);
		memcpy(insn.bytes + 4, &magic, sizeof(magic));
	}
	translate(0, &tb);
	if (insn.exec)
		insn.exec(cpu, insn.exec_data);
	if (insn.mem && (!strcmp(what, "load") || !strcmp(what, "both")))
		insn.mem(cpu, QEMU_PLUGIN_MEM_R, addr, insn.mem_data);
	if (insn.mem && (!strcmp(what, "store") || !strcmp(what, "both")))
		insn.mem(cpu, QEMU_PLUGIN_MEM_W, addr, insn.mem_data);
}

int main(int argc, char **argv)
{
	qemu_info_t info = { .system_emulation = true };
	char line[256], what[16];
	unsigned int cpu;

	if (argc < 3)
		return 2;
	info.target_name = argv[1];
	info.system.max_vcpus = atoi(argv[2]);
	if (qemu_plugin_install(0, &info, argc - 3, argv + 3))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t first, addr = 0;

		if (sscanf(line, "%15s %u %" SCNx64 " %" SCNx64, what, &cpu, &first,
			   &addr) < 3)
			return 2;
		execute(what, cpu, first, addr);
	}
	return 0;
}
