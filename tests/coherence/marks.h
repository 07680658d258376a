/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How the program in the guest tells the plugin what it is about: by instructions that
 * do nothing, of an address that no compiler would choose.
 */
#ifndef MARKS_H
#define MARKS_H

enum mark {
	MARK_CASE,		/* counting begins anew */
	MARK_FAULT,		/* this CPU is about to fault */
	MARK_FAULT_END,
	MARK_CASE_END,
	MARKS
};

#define MARK_MAGIC	0x53504600	/* plus the mark */

#ifdef __x86_64__
/* nopl disp32(%rax,%rax): the four bytes, then the displacement. */
#define MARK_OPCODE	"\x0f\x1f\x84\x00"

static inline __attribute__((always_inline)) void mark(enum mark m)
{
	asm volatile("nopl %c0(%%rax,%%rax)" : : "i"(MARK_MAGIC + m) : "memory");
}
#else
/* A plugin that sees none is told of by run-guest. */
static inline void mark(enum mark m)
{
	(void)m;
}
#endif

#endif
