# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by the verbs that build kernels.

# The same source gives the same kernel, whoever builds it, and whenever.
export KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 1970'
export KBUILD_BUILD_USER=spf KBUILD_BUILD_HOST=build KBUILD_BUILD_VERSION=1

CCACHE=
if command -v ccache >/dev/null; then
	CCACHE="ccache "
	export CCACHE_DIR=${CCACHE_DIR:-$BUILD/ccache}
	export CCACHE_BASEDIR=$BUILD CCACHE_NOHASHDIR=1
fi

kmake() {	# TREE DIRECTORY TARGET...
	local tree=$1 dir=$2

	shift 2
	make -C "$tree" O="$dir" ARCH="$ARCH" CROSS_COMPILE="$CROSS_COMPILE" \
		CC="${CCACHE}${CROSS_COMPILE}gcc" -j"$(nproc)" "$@"
}

# An equal configuration keeps its time, and kbuild its rest.
kconfigure() {	# TREE DIRECTORY FRAGMENT...
	local tree=$1 dir=$2

	shift 2
	[[ ! -f $dir/.config ]] || cp -p "$dir/.config" "$dir/.config.last" || return
	kmake "$tree" "$dir" tinyconfig &&
	(cd "$dir" && "$tree/scripts/kconfig/merge_config.sh" -m .config "$@") &&
	kmake "$tree" "$dir" olddefconfig || return
	! cmp -s "$dir/.config.last" "$dir/.config" || mv "$dir/.config.last" "$dir/.config"
}

# The next two need TREE_NAME (base, patched or peer), and NAME and KERNEL_DIR of the kernel.
verify_config() {	# FRAGMENT...: what was asked for is there, the last word counting
	local missing

	missing=$(awk -F= '
		FNR == NR && /^CONFIG_/ { have[$1] = substr($0, length($1) + 2) }
		FNR != NR && /^CONFIG_/ { want[$1] = substr($0, length($1) + 2) }
		END {
			for (c in want)
				if (want[c] != (c in have ? have[c] : "n"))
					print c "=" want[c]
		}' "$KERNEL_DIR/.config" "$@" | sort)
	# A pristine tree does not know the series' own symbol.
	[[ $TREE_NAME == patched ]] ||
		missing=$(grep -v '^CONFIG_SPECULATIVE_PAGE_FAULT=' <<<"$missing") || true
	[[ -z $missing ]] ||
		die "$NAME: the configuration does not hold $(paste -sd' ' <<<"$missing")" \
			"look up what it depends on in the Kconfig files and add that to configs/, or, for SPECULATIVE_PAGE_FAULT, see whether the series is complete: make apply"
}

build_kernel() {	# TARGET FRAGMENT...: configured by these, to the target; or dies
	local target=$1 tree=$BUILD/$TREE_NAME/linux log=$BUILD/log/build-$NAME.log

	shift
	mkdir -p "$KERNEL_DIR"
	step CONFIG "$NAME" "$BUILD/log/config-$NAME.log" \
		kconfigure "$tree" "$KERNEL_DIR" "$@" ||
		die "$NAME cannot be configured" "read $BUILD/log/config-$NAME.log"
	verify_config "$@"
	if ! step BUILD "$NAME, $(nproc) jobs" "$log" kmake "$tree" "$KERNEL_DIR" "$target"; then
		first_errors "$log"
		die "build failed: $NAME" "read $log"
	fi
}

first_errors() {	# LOG
	grep -E -m 5 'error:|Error [0-9]|undefined reference|No space left|No rule to make' "$1" >&2 || true
}
