# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by every verb: messages, timed steps, the lock, space, cleanup.
# shellcheck disable=SC2034 # what is set here is read by the verbs

set -euo pipefail
export LC_ALL=C
# A verb called by make is not a sub-make: kbuild must not see our variables.
unset MAKEFLAGS MFLAGS MAKELEVEL

VERB=$(basename "$0")
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$(realpath -m "${O:-$TOP/build}")
RESULTS=$TOP/results
export O=$BUILD

BASE_TREE=$BUILD/base/linux
PEER_TREE=$BUILD/peer/linux
PATCHED_TREE=$BUILD/patched/linux

say() {	# LABEL TEXT
	printf '  %-8s %s\n' "$1" "$2"
}

die() {	# WHAT CURE...
	printf 'scripts/%s: error: %s\n' "$VERB" "$1" >&2
	shift
	[[ $# -eq 0 ]] || printf '  cure: %s\n' "$@" >&2
	exit 2
}

# Cleanup: whatever way a verb ends, nothing that it started goes on running
# and nothing half made stays behind.
CHILD=
HALF_MADE=()

half_made() {	# PATH: remove it at exit, if it has not been renamed by then
	HALF_MADE+=("$1")
}

end_child() {
	[[ $CHILD ]] || return 0
	kill -TERM -- "-$CHILD" 2>/dev/null || true
	wait "$CHILD" 2>/dev/null || true
	CHILD=
}

cleanup() {	# [STATUS]
	local rc=${1-$?}

	trap '' INT TERM HUP
	end_child
	[[ ${#HALF_MADE[@]} -eq 0 ]] || rm -rf -- "${HALF_MADE[@]}"
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

run() {	# COMMAND...: in a process group of its own, so that cleanup ends all of it
	local rc=0

	set -m
	"$@" </dev/null &
	CHILD=$!
	set +m
	wait "$CHILD" || rc=$?
	CHILD=
	return "$rc"
}

step() {	# LABEL TEXT LOG COMMAND...: one line with the time it took and the log
	local label=$1 text=$2 log=$3 start=$SECONDS rc=0

	shift 3
	mkdir -p "$(dirname "$log")"
	printf '  %-8s %s ... ' "$label" "$text"
	if [[ ${V:-0} == 0 ]]; then
		run "$@" >"$log" 2>&1 || rc=$?
	else
		echo
		run "$@" > >(tee "$log") 2>&1 || rc=$?
	fi
	[[ $rc -eq 0 ]] || printf 'FAILED, '
	printf '%d s, log %s\n' $((SECONDS - start)) "$log"
	return "$rc"
}

take_lock() {	# one run in a checkout; the verbs that a verb calls share its lock
	local lock=$BUILD/.lock holder fd

	[[ ${SPF_LOCK-} != "$lock" ]] || return 0
	# Before anything is written there.
	[[ ! -f ${KERNEL_SRC-}/mm/Kconfig || $BUILD/ != "$(realpath "$KERNEL_SRC")"/* ]] ||
		die "$BUILD lies inside KERNEL_SRC=$KERNEL_SRC" \
			"keep the two apart, for example with O=/other/place"
	mkdir -p "$BUILD" || die "$BUILD cannot be made" "choose another place with O="
	[[ -w $BUILD && ( ! -e $lock || -w $lock ) ]] || die "$BUILD cannot be written to" \
		"make it yours (chown -R), or choose another place with O="
	exec {fd}<>"$lock"
	if ! flock -n "$fd"; then
		holder=$(cat "$lock")
		die "another run is under way in $BUILD: process $holder" \
			"wait for it, or end it with: kill ${holder%% *}"
	fi
	echo "$$ (scripts/$VERB)" >"$lock"
	export SPF_LOCK=$lock
}

need() {	# COMMAND
	command -v "$1" >/dev/null || die "$1 is missing" "make deps"
}

need_compiler() {	# CURE: of CROSS_COMPILE and ARCH
	command -v "${CROSS_COMPILE}gcc" >/dev/null ||
		die "the compiler ${CROSS_COMPILE}gcc is missing" \
			"$1, or CROSS_COMPILE= with the prefix of one that is there"
}

check_number() {	# NAME VALUE EXAMPLE
	[[ $2 =~ ^[1-9][0-9]*$ ]] ||
		die "$1=$2 is no number above 0" "for example $1=$3"
}

need_space() {	# DIRECTORY MEGABYTES WHAT
	local have

	mkdir -p "$1"
	have=$(df -m --output=avail "$1" | tail -n 1 | tr -d ' ')
	[[ $have -ge $2 ]] || die \
		"$3 needs $2 MB in $1, $have MB are free: $(($2 - have)) MB are missing" \
		"free them, or put the build elsewhere with O=/other/disk"
}

# KERNEL_VERSION is read, not sourced: it must not be able to run anything.
kernel_version() {	# KEY
	sed -n "s/^$1=//p" "$TOP/KERNEL_VERSION"
}

kernel_range() {
	local series min

	series=$(kernel_version series)
	min=$(kernel_version min)
	echo "$series.y, y >= ${min##*.}"
}

check_kernel_src() {	# KERNEL_SRC is a kernel tree
	local file

	for file in Makefile mm/Kconfig mm/memory.c scripts/kconfig/merge_config.sh; do
		[[ -f $KERNEL_SRC/$file ]] ||
			die "KERNEL_SRC=$KERNEL_SRC is no kernel tree: it has no $file" \
				"point it at the top of an unpacked Linux $(kernel_range)"
	done
}

tree_version() {	# TREE
	awk '$1 == "VERSION" { v = $3 } $1 == "PATCHLEVEL" { p = $3 }
	     $1 == "SUBLEVEL" { s = $3 } $1 == "EXTRAVERSION" { e = $3; exit }
	     END { print v "." p "." s e }' "$1/Makefile"
}

missing_packages() {	# prints them; says on stderr what each is missing for
	local need package missing=()

	while read -r need package; do
		case $need in
		"" | "#"*) continue ;;
		/*) [[ ! -e $need ]] || continue ;;
		*) ! command -v "$need" >/dev/null || continue ;;
		esac
		printf '  %-28s is missing, Debian package %s\n' "$need" "$package" >&2
		missing+=("$package")
	done < <(
		cat "$TOP/scripts/packages"
		package=$(kernel_version package)
		[[ ${ARCH-} != powerpc ]] || cat "$TOP/scripts/packages-powerpc"
		[[ ${PEER:-0} != 1 ]] || cat "$TOP/scripts/packages-peer"
		[[ ${DEB:-0} != 1 ]] || cat "$TOP/scripts/packages-deb"
		[[ ${KERNEL_SRC-} ]] || echo "/usr/src/$package.tar.xz $package"
	)
	echo "${missing[*]}"
}

# A kernel's source; the caller moves NEW to its place.
unpack_source() {	# PACKAGE NEW LABEL
	local tarball=/usr/src/$1.tar.xz

	need xz
	need_space "$BUILD" 2000 "the source of a kernel"
	half_made "$2"
	rm -rf "$2"
	mkdir -p "$2"
	step "$3" "unpacking $tarball" "$BUILD/log/${3,,}.log" \
		tar -C "$2" --strip-components=1 -xf "$tarball" ||
		die "$tarball does not unpack" "apt-get install --reinstall $1"
}

series_patches() {	# the names in series, in order
	sed 's/[[:space:]]*#.*//; /^[[:space:]]*$/d' "$TOP/series"
}

series_hash() {	# of series and patches/
	{
		cat "$TOP/series"
		series_patches | while read -r patch; do
			cat "$TOP/patches/$patch"
		done
	} | sha256sum | cut -d' ' -f1
}

in_quilt() {	# TREE COMMAND...
	local tree=$1

	shift
	(cd "$tree" && QUILT_PATCHES=$TOP/patches QUILT_SERIES=$TOP/series \
		quilt --quiltrc=- "$@")
}

# Sets the variables that describe ARCH=.
set_arch() {
	ARCH=${ARCH:-x86_64}
	case $ARCH in
	x86_64)
		[[ ! ${MMU-} ]] || die "MMU= is for ARCH=powerpc" "leave it out"
		ARCH_CONFIG=x86_64
		IMAGE=arch/x86/boot/bzImage
		QEMU_PROGRAM=qemu-system-x86_64
		MMU=
		;;
	powerpc)
		ARCH_CONFIG=ppc64le
		IMAGE=vmlinux
		QEMU_PROGRAM=qemu-system-ppc64
		CROSS_COMPILE=${CROSS_COMPILE:-powerpc64le-linux-gnu-}
		MMU=${MMU:-radix}
		[[ $MMU == radix || $MMU == hash ]] ||
			die "MMU=$MMU is not known" "use MMU=radix or MMU=hash"
		;;
	*)
		die "ARCH=$ARCH is not known here" "use ARCH=x86_64 or ARCH=powerpc"
		;;
	esac
	CROSS_COMPILE=${CROSS_COMPILE-}
	export ARCH CROSS_COMPILE MMU
}

# Sets TREE_NAME (base, patched or peer), BUSTED (the patch that breaks it, if any),
# FRAGMENT and the O= directory KERNEL_DIR of a CONFIG. Needs set_arch.
set_config() {	# CONFIG
	local name

	BUSTED=
	case $1 in
	BASE)
		TREE_NAME=base
		FRAGMENT=SPF
		name=base
		;;
	PEER)
		TREE_NAME=peer
		FRAGMENT=PEER
		name=peer
		;;
	BUSTED-*)
		BUSTED=$TOP/tests/busted/${1#BUSTED-}.patch
		[[ -f $BUSTED ]] || die "CONFIG=$1: there is no $BUSTED" \
			"one of: $(known_configs)"
		TREE_NAME=patched
		FRAGMENT=$(sed -n '1s/^Config: *//p' "$BUSTED")
		[[ $FRAGMENT ]] || die "$BUSTED does not open with a line Config: NAME" \
			"add it, for example: Config: LOCKDEP"
		name=busted-${1#BUSTED-}
		;;
	*)
		TREE_NAME=patched
		FRAGMENT=$1
		name=patched
		;;
	esac
	[[ -f $TOP/configs/$FRAGMENT.config ]] ||
		die "CONFIG=$1: there is no configs/$FRAGMENT.config" \
			"one of: $(known_configs)"
	KERNEL_DIR=$BUILD/$name-$ARCH-$FRAGMENT
}

known_configs() {
	local f

	printf 'BASE PEER'
	for f in "$TOP"/configs/*.boot; do
		printf ' %s' "$(basename "$f" .boot)"
	done
	for f in "$TOP"/tests/busted/*.patch; do
		[[ ! -f $f ]] || printf ' BUSTED-%s' "$(basename "$f" .patch)"
	done
}

# Results: a directory a run, never overwritten. INCOMPLETE stays in that of a
# run that did not reach its end; results/latest-* never points at such a one.
new_results() {	# TARGET: sets RES
	if ! mkdir -p "$RESULTS" || [[ ! -w $RESULTS ]]; then
		die "$RESULTS cannot be written to" \
			"make it yours (chown), or use a checkout of your own"
	fi
	RES=$RESULTS/$(date -u +%Y%m%dT%H%M%SZ)-$1
	until mkdir "$RES" 2>/dev/null; do
		sleep 1
		RES=$RESULTS/$(date -u +%Y%m%dT%H%M%SZ)-$1
	done
	touch "$RES/INCOMPLETE"
	series_hash >"$RES/series.sha256"
}

end_results() {	# TARGET
	rm "$RES/INCOMPLETE"
	ln -sfn "$(basename "$RES")" "$RESULTS/latest-$1"
}

# TAP of one run to rows "test status seconds".
tap_rows() {	# TEST SECONDS <TAP
	awk -v test="$1" -v seconds="$2" '
	/^(not )?ok( |$)/ {
		status = /^ok/ ? "pass" : "fail"
		if (toupper($0) ~ /# *SKIP/)
			status = "skip"
		sub(/^(not )?ok *[0-9]* *-? */, "")
		sub(/ *#.*/, "")
		printf "%s/%s\t%s\t%s\n", test, $0 == "" ? ++n : $0, status, seconds
	}'
}

# The closing line of check and test; fails when anything failed or nothing ran.
closing() {	# PASSED FAILED SKIPPED
	echo "$1 passed, $2 failed, $3 skipped"
	[[ $2 -eq 0 && $1 -gt 0 ]]
}
