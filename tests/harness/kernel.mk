# SPDX-License-Identifier: GPL-2.0
#
# The build of the tests' kernel tree: a file that says BROKEN does not compile. One
# that says BROKEN-ON does not either, where the option is on.
OPTION := CONFIG_SPECULATIVE_PAGE_FAULT

tinyconfig:
	: >$(O)/.config

olddefconfig:
	grep -q SPECULATIVE mm/Kconfig || sed -i '/$(OPTION)/d' $(O)/.config

%.o:
	@! grep -Hnx 'BROKEN.*' $*.c | sed 's/:BROKEN$$/: error: broken/' | grep error:
	@! grep -qx '$(OPTION)=y' $(O)/.config || \
		! grep -Hn 'BROKEN-ON' $*.c | sed 's/:BROKEN.*/: error: broken/' | grep .
	mkdir -p $(O)/mm
	touch $(O)/$@

vmlinux bzImage: mm/memory.o mm/vmstat.o
	mkdir -p $(O)/arch/x86/boot
	touch $(O)/arch/x86/boot/$@

.PHONY: tinyconfig olddefconfig vmlinux bzImage
