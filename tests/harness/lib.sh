# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by the tests of scripts/: a checkout of their own in a temporary directory
# with a series of two patches, and a kernel tree of three files that it fits.

set -u
unset SPF_LOCK O KERNEL_SRC FORCE_VERSION CONFIG TESTS BENCH KERNELS ARCH MMU CROSS_COMPILE \
	CPUS MEM ACCEL TIMEOUT V SECONDS SEED

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
NR=0 FAILED=0

ok() {	# NAME
	NR=$((NR + 1))
	echo "ok $NR - $1"
}

skip() {	# NAME WHY
	NR=$((NR + 1))
	echo "ok $NR - $1 # SKIP $2"
}

not_ok() {	# NAME WHY
	NR=$((NR + 1))
	FAILED=$((FAILED + 1))
	echo "not ok $NR - $1"
	echo "# ${2//$'\n'/$'\n'# }"
}

check() {	# NAME COMMAND...: is it true?
	local name=$1

	shift
	if "$@"; then
		ok "$name"
	else
		not_ok "$name" "false: $*"
	fi
}

expect() {	# NAME STATUS REGEX COMMAND...: how it ends and what it says
	local name=$1 status=$2 regex=$3 out rc=0

	shift 3
	out=$("$@" 2>&1 </dev/null) || rc=$?
	if [[ $rc -ne $status ]]; then
		not_ok "$name" "status $rc, not $status, of $*"$'\n'"$out"
	elif ! grep -Eq "$regex" <<<"$out"; then
		not_ok "$name" "no /$regex/ in what $* said"$'\n'"$out"
	else
		ok "$name"
	fi
}

finish() {
	echo "1..$NR"
	[[ $FAILED -eq 0 ]]
}

make_checkout() {	# $T/repo
	mkdir -p "$T/repo/tests/guest" "$T/repo/patches"
	cp -r "$HERE/scripts" "$HERE/configs" "$HERE/KERNEL_VERSION" "$T/repo/"
	rm -f "$T"/repo/scripts/audit{,-fields}
	cp "$HERE/tests/guest/init" "$T/repo/tests/guest/"
	# shellcheck disable=SC2016 # make expands it
	printf '$(O)/program:\n\tmkdir -p $(O)\n\ttouch $@\n' >"$T/repo/tests/guest/Makefile"
	printf '# one\nmm-one.patch\n# two\nmm-two.patch\n' >"$T/repo/series"
	make_patch one memory.c 5 >"$T/repo/patches/mm-one.patch"
	make_patch two vmstat.c 9 >"$T/repo/patches/mm-two.patch"
}

make_patch() {	# WORD FILE LINE
	cat <<EOF
From: Some One <one@example.org>
Date: Mon, 1 Jan 2024 00:00:00 +0000
Subject: [PATCH] mm: $1

What it changes, and why.

Signed-off-by: Some One <one@example.org>
---
 mm/$2 | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/mm/$2 b/mm/$2
--- a/mm/$2
+++ b/mm/$2
@@ -$(($3 - 1)),3 +$(($3 - 1)),3 @@
 line $(($3 - 1))
-line $3
+line $3 $1
 line $(($3 + 1))
EOF
}

# shellcheck disable=SC2016 # sh expands it
make_kernel() {	# DIRECTORY VERSION PATCHLEVEL SUBLEVEL
	mkdir -p "$1/mm" "$1/scripts/kconfig"
	{
		printf 'VERSION = %s\nPATCHLEVEL = %s\nSUBLEVEL = %s\nEXTRAVERSION =\n' \
			"$2" "$3" "$4"
		cat "$HERE/tests/harness/kernel.mk"
	} >"$1/Makefile"
	printf '#!/bin/sh\nshift 2\ncat "$@" >>.config\n' >"$1/scripts/kconfig/merge_config.sh"
	chmod +x "$1/scripts/kconfig/merge_config.sh"
	printf 'config SWAP\n' >"$1/mm/Kconfig"
	seq -f 'line %g' 20 >"$1/mm/memory.c"
	seq -f 'line %g' 20 >"$1/mm/vmstat.c"
	printf '#!/bin/sh\n' >"$1/scripts/checkpatch.pl"
	chmod +x "$1/scripts/checkpatch.pl"
}

# Kernels build at once, and what a guest says is FAKE_PORT, its outcome FAKE_RC. In
# the working directory; the guest's settings go to $T/settings.
fake_guests() {
	mkdir -p tests/guest/jobs
	printf '#!/bin/sh\nexit 0\n' | tee scripts/build scripts/deps >/dev/null
	cat >scripts/run-guest <<-EOF
	#!/bin/bash
	mkdir -p "\$3"
	echo "\$TIMEOUT \$APPEND" >"$T/settings"
	echo "outcome \$FAKE_RC" >"\$3/outcome"
	printf '%b' "\$FAKE_PORT" >"\$3/port.log"
	exit "\$FAKE_RC"
	EOF
}

sums() {	# DIRECTORY
	(cd "$1" && find . -type f -exec sha256sum {} + | sort -k 2)
}

# A directory with all commands but those named.
commands_without() {	# DIRECTORY COMMAND...
	local dir=$1 name

	shift
	cp -rs /usr/bin "$dir" 2>/dev/null
	for name; do
		rm -f "$dir/$name"
	done
}
