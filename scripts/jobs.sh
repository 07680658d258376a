# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by the verbs that run jobs of tests/guest/jobs, each in a guest of its own:
# test and stress. They set WANT_CONFIG, the kernel of all jobs; empty: what each asks
# for. Needs guest.sh.
# shellcheck disable=SC2034 # what is set here is read by the verbs

JOBS=$TOP/tests/guest/jobs

row() {	# TEST STATUS SECONDS
	printf '%s\t%s\t%s\n' "$@" >>"$RES/summary.tsv"
}

begin_jobs() {	# VERB
	new_results "$1"
	printf 'test\tstatus\tseconds\n' >"$RES/summary.tsv"
}

# A job may be for one architecture, by a line "# ARCH: ".
job_runs_here() {	# JOB
	[[ $(job_header "$1" ARCH "$ARCH") == "$ARCH" ]]
}

# The configurations it runs in.  Where "# CONTROL: " names the architecture BASE is one:
# what goes wrong there is not the series' fault.
job_configs() {	# JOB
	job_runs_here "$1" || return 0
	echo "${WANT_CONFIG:-$(job_header "$1" CONFIG LOCKDEP)}"
	[[ $WANT_CONFIG || $(job_header "$1" CONTROL "") != "$ARCH" ]] || echo BASE
}

# A kernel that does not build fails once, and its jobs do not run.
build_kernels() {	# JOB...: sets BUILT
	local config job start

	BUILT=" "
	for config in $(for job; do job_configs "$job"; done | sort -u); do
		start=$SECONDS
		if CONFIG=$config run "$TOP/scripts/build"; then
			BUILT+="$config "
			row "build/$config" pass $((SECONDS - start))
		else
			row "build/$config" fail $((SECONDS - start))
		fi
	done
}

# Sets JOB_NAME, JOB_KERNEL (a CONFIG), OUT, and the guest; fails, with a row, if the
# kernel was not built.
prepare_job() {	# JOB CONFIG
	JOB_NAME=$(basename "$1" .job)${MMU:+-$MMU}
	JOB_KERNEL=$2
	[[ $JOB_KERNEL != BASE || $WANT_CONFIG ]] || JOB_NAME+=-control
	OUT=$RES/$JOB_NAME
	if [[ $BUILT != *" $JOB_KERNEL "* ]]; then
		say TEST "$JOB_NAME: not run, its kernel $JOB_KERNEL was not built"
		row "$JOB_NAME" skip 0
		return 1
	fi
	set_config "$JOB_KERNEL"
	guest_settings "$1" "$FRAGMENT"
}

# Sets RC, run-guest's status, and TOOK, seconds with the boot.
run_prepared() {	# JOB
	local start=$SECONDS

	RC=0
	say TEST "$JOB_NAME: $JOB_KERNEL, $CPUS CPUs, $MEM, $TIMEOUT s at most"
	ACCEL=$JOB_ACCEL run "$TOP/scripts/run-guest" "$KERNEL_DIR" "$1" "$OUT" || RC=$?
	TOOK=$((SECONDS - start))
	mv "$OUT/port.log" "$OUT/$JOB_NAME.tap" || true
}

# Did the job notice a kernel that is broken on purpose? By failed tests, a hang, a
# panic or a splat, not by what the harness lacks.
noticed() {
	[[ $RC == [1345] ]]
}

job_rows() {	# of the job that ran
	tap_rows "$JOB_NAME" "$TOOK" <"$OUT/$JOB_NAME.tap" >>"$RES/summary.tsv"
	# What TAP does not show: a panic, a splat, a hang...
	if [[ $RC -ne 0 ]] && ! { [[ $RC -eq 1 ]] && grep -q '^not ok' "$OUT/$JOB_NAME.tap"; }; then
		row "$JOB_NAME/$(cut -d: -f1 "$OUT/outcome" 2>/dev/null || echo harness)" fail "$TOOK"
	fi
}

count() {	# STATUS
	awk -F'\t' -v status="$1" '$2 == status { n++ } END { print n + 0 }' "$RES/summary.tsv"
}

close_jobs() {	# VERB
	local outcome

	end_results "$1"
	awk -F'\t' '$2 == "fail" { print "  FAILED   " $1 }' "$RES/summary.tsv"
	# In words: of a run elsewhere the end of what it printed may be all that is kept.
	for outcome in "$RES"/*/outcome; do
		[[ ! -f $outcome ]] || grep -q '^passed' "$outcome" ||
			say WHY "$(basename "${outcome%/*}"): $(cat "$outcome")"
	done
	say RESULTS "$RES"
	closing "$(count pass)" "$(count fail)" "$(count skip)"
}
