# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by run-guest: what jobs ask for by a line "# NEEDS: perf selftests kernbench".
# The first two are programs of the patched tree itself, static.

. "$TOP/scripts/kbuild.sh"
. "$TOP/scripts/kernbench.sh"

TOOLS=$BUILD/tools-$ARCH

# perf without its optional libraries; what is left out is not used by a job.
build_perf() {	# OUT
	mkdir -p "$1.build"
	make -C "$PATCHED_TREE/tools/perf" O="$1.build" -j"$(nproc)" LDFLAGS=-static WERROR=0 \
		CC="${CCACHE}gcc" \
		NO_LIBELF=1 NO_DWARF=1 NO_LIBUNWIND=1 NO_LIBPERL=1 NO_LIBPYTHON=1 \
		NO_SLANG=1 NO_GTK2=1 NO_DEMANGLE=1 NO_LIBNUMA=1 NO_LIBCRYPTO=1 NO_LIBCAP=1 \
		NO_SDT=1 NO_JVMTI=1 NO_LIBZSTD=1 NO_LZMA=1 NO_ZLIB=1 NO_LIBBPF=1 \
		NO_LIBDEBUGINFOD=1 NO_AIO=1 NO_LIBPFM4=1 perf &&
	install -D "$1.build/perf" "$1/bin/perf"
}

# The tests of mm/ that the job of this name runs.
SELFTESTS="hugepage-mmap hugepage-mremap hugepage-shm khugepaged ksm_tests madv_populate
	map_fixed_noreplace map_hugetlb mlock2-tests mremap_dontunmap mremap_test
	mrelease_test on-fault-limit soft-dirty speculative_fault thuge-gen
	userfaultfd"

build_selftests() {	# OUT
	local dir=$PATCHED_TREE/tools/testing/selftests/vm name
	local flags=(-O2 -w -static -D_GNU_SOURCE -isystem "$1.build/usr/include"
		     -I"$PATCHED_TREE")

	make -C "$PATCHED_TREE" O="$1.build" ARCH=x86_64 headers || return
	mkdir -p "$1/selftests"
	for name in $SELFTESTS; do
		gcc "${flags[@]}" -o "$1/selftests/$name" "$dir/$name.c" "$dir/vm_util.c" \
			-pthread -lrt -lnuma || return
	done
}

check_tool() {	# NAME: what it is made of is there
	case $1 in
	perf | selftests)
		[[ -d $PATCHED_TREE ]] || die "$1 is built from the patched tree, which is not there" \
			"make apply"
		;;
	kernbench)
		check_kernbench
		;;
	*)
		die "a job needs $1, which is not known" "perf, selftests and kernbench are"
		;;
	esac
}

tool_stamp() {	# NAME: changes when it is to be built anew
	case $1 in
	kernbench) kernbench_stamp ;;
	*) series_hash ;;
	esac
}

guest_tool() {	# NAME: sets TOOL_DIR, a directory to lay over the guest's root
	local stamp new=$TOOLS/$1.new

	TOOL_DIR=$TOOLS/$1
	check_tool "$1"
	stamp=$(tool_stamp "$1")
	[[ $(cat "$TOOL_DIR.stamp" 2>/dev/null) != "$stamp" ]] || return 0
	half_made "$new"
	half_made "$new.build"
	rm -rf "$new" "$new.build"
	step TOOLS "$1 for the guest" "$BUILD/log/$1.log" "build_$1" "$new" ||
		die "$1 does not build" "read $BUILD/log/$1.log"
	rm -rf "$TOOL_DIR" "$TOOL_DIR.stamp"
	mv "$new" "$TOOL_DIR"
	echo "$stamp" >"$TOOL_DIR.stamp"
}
