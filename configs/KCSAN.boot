# SPDX-License-Identifier: GPL-2.0
CPUS=4
MEM=1G
APPEND_x86_64="numa=fake=2 panic_on_warn=0 kcsan.udelay_task=3000 kcsan.udelay_interrupt=200"
