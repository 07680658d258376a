# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by tools.sh: what the benchmark kernbench needs in the guest. That is this
# machine's compiler, assembler and make, where they lie here, and files of the base
# kernel in /kernbench, preprocessed by its own flags, so that no header is needed.

# More than four times two CPUs, and small: emulated, a compiler takes some twenty times
# as long.
KERNBENCH_SOURCES="base64 cmdline find_bit hexdump list_sort llist plist rbtree sort uuid"

kernbench_programs() {
	command -v gcc as make
	gcc -print-prog-name=cc1
}

check_kernbench() {	# sets KERNEL_DIR, the base kernel's
	local program missing

	for program in gcc as make; do
		need "$program"
	done
	[[ $(gcc -print-prog-name=cc1) == /* ]] || die "gcc has no cc1, so it compiles no C" \
		"apt-get install --reinstall gcc cpp"
	for program in $(kernbench_programs); do
		missing=$(ldd "$program" | sed -n 's/^[[:space:]]*\(.*\) => not found.*/\1/p') || true
		[[ -z $missing ]] || die "$program lacks ${missing//$'\n'/, }" \
			"apt-get install --reinstall gcc binutils make, and what they depend on"
	done
	set_config BASE
	[[ -f $BASE_TREE/Makefile && -f $KERNEL_DIR/vmlinux ]] ||
		die "kernbench compiles files of the base kernel, which is not there" \
			"make build CONFIG=BASE"
	need_space "$BUILD" 500 kernbench
}

kernbench_stamp() {	# after check_kernbench
	{
		gcc --version
		tree_version "$BASE_TREE"
		cat "$KERNEL_DIR/.config" "$TOP/scripts/kernbench.sh" "$TOP/tests/bench/kernbench.mk"
	} | sha256sum
}

build_kernbench() {	# OUT, after check_kernbench
	local file name

	for file in $(kernbench_programs) $(kernbench_libraries); do
		install -D "$file" "$1$file" || return
	done
	install -D -m 644 "$TOP/tests/bench/kernbench.mk" "$1/kernbench/Makefile" || return
	# shellcheck disable=SC2046,SC2086 # each a word of its own
	kmake "$BASE_TREE" "$KERNEL_DIR" $(printf 'lib/%s.i ' $KERNBENCH_SOURCES) || return
	for name in $KERNBENCH_SOURCES; do
		cp "$KERNEL_DIR/lib/$name.i" "$1/kernbench/" &&
		code_flags "$KERNEL_DIR/lib/.$name.i.cmd" >"$1/kernbench/$name.flags" || return
	done
}

kernbench_libraries() {	# with the one that loads them
	local program

	for program in $(kernbench_programs); do
		ldd "$program"
	done | grep -o '/[^ ]*' | sort -u
}

# Of a command that kbuild has noted, what is left to say once it is preprocessed.
code_flags() {	# FILE
	grep '^cmd_' "$1" | grep -o ' -[fmOs][^ ]*' | grep -v -- '-prefix-map='
}
