# SPDX-License-Identifier: GPL-2.0
CPUS=4
MEM=2G
APPEND_x86_64="numa=fake=2 slub_max_order=0"
