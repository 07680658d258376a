# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by bench: the guests of a run, one for each benchmark, kernel and round. Which
# of them has a run done that was cut off, and how long will the others take?

# All that the figures depend on but the load: runs of which this is the same are one run.
settings() {
	local config

	# shellcheck disable=SC2153 # BENCH is the user's
	echo "$ARCH $ACCEL CPUS=$USER_CPUS MEM=$USER_MEM KERNELS=$KERNELS BENCH=$BENCH"
	series_hash
	for config in $CONFIGS; do
		set_config "$config"
		sha256sum <"$KERNEL_DIR/$IMAGE"
	done
	find "$TOP"/tests/{bench,guest,coherence} -type f -exec cat {} + | sha256sum
}

# Goes on with the newest run of this target, if it was cut off and is of these settings.
resume_results() {	# TARGET: sets RES
	local last

	last=$(find "$RESULTS" -maxdepth 1 -name "*Z-$1" 2>/dev/null | sort | tail -n 1)
	[[ $last && -f $last/INCOMPLETE && -f $last/settings ]] &&
		settings | cmp -s - "$last/settings" || return
	RES=$last
	say RESUME "$RES, which was cut off (rm -r it to begin anew)"
}

is_done() {	# OUT-DIRECTORY
	grep -qs '^passed' "$1/outcome"
}

declare -A NR_ROUNDS LEFT RAN TOOK

plan_rounds() {	# sets NR_ROUNDS, of a benchmark, and counts what is left
	local bench kernel round

	for bench in $BENCH; do
		NR_ROUNDS[$bench]=$(job_header "$BENCHES/$bench.job" ROUNDS 1)
		LEFT[$bench]=0 RAN[$bench]=0 TOOK[$bench]=0
		for ((round = 1; round <= NR_ROUNDS[$bench]; round++)); do
			for kernel in $KERNELS; do
				is_done "$RES/$bench/$kernel.$round" ||
					LEFT[$bench]=$((LEFT[$bench] + 1))
			done
		done
	done
}

# By the mean of the benchmark's guests so far; where there is none yet, of all guests.
guest_ended() {	# BENCHMARK SECONDS: says what is left
	local bench guests=0 ran=0 took=0 seconds=0

	LEFT[$1]=$((LEFT[$1] - 1)) RAN[$1]=$((RAN[$1] + 1)) TOOK[$1]=$((TOOK[$1] + $2))
	for bench in $BENCH; do
		ran=$((ran + RAN[$bench])) took=$((took + TOOK[$bench]))
	done
	for bench in $BENCH; do
		guests=$((guests + LEFT[$bench]))
		if [[ ${RAN[$bench]} -gt 0 ]]; then
			seconds=$((seconds + LEFT[$bench] * TOOK[$bench] / RAN[$bench]))
		else
			seconds=$((seconds + LEFT[$bench] * took / ran))
		fi
	done
	[[ $guests -eq 0 ]] || say LEFT "$guests guests, some $(((seconds + 59) / 60)) min"
}
