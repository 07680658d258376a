# SPDX-License-Identifier: GPL-2.0
CPUS=4
MEM=1G
APPEND_x86_64="numa=fake=2"
APPEND_powerpc=
