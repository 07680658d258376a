# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Sourced by the verbs that boot a guest: its programs, its initramfs, its QEMU.

is_newest() {	# FILE OTHER...
	local file=$1 other

	shift
	[[ -e $file ]] || return
	for other; do
		[[ $file -nt $other ]] || return
	done
}

guest_make() {	# OPTION...: the programs, by tests/guest/Makefile
	make -C "$TOP/tests/guest" O="$BUILD/guest-$ARCH/bin" CC="${CROSS_COMPILE}gcc" "$@"
}

build_plugin() {	# NAME: of tests/NAME, for the QEMU of this machine
	make -C "$TOP/tests/$1" O="$BUILD/plugin"
}

# Adds it to QEMU; what it finds goes to the file.
add_plugin() {	# NAME KERNEL-DIRECTORY FILE
	[[ $ACCEL == single ]] ||
		die "the plugin $1 wants CPUs that take turns, not ACCEL=$ACCEL" \
			"ACCEL=single"
	[[ -f $TOP/tests/$1/Makefile ]] || die "PLUGIN=$1: there is no tests/$1/Makefile"
	[[ -f $2/System.map ]] || die "there is no $2/System.map" "make build"
	step PLUGIN "$1" "$BUILD/log/plugin-$1.log" build_plugin "$1" ||
		die "the plugin $1 does not compile" "read $BUILD/log/plugin-$1.log"
	QEMU+=(-plugin "$BUILD/plugin/$1.so,map=$2/System.map,out=$3")
}

# Debian's package for another architecture, by an apt whose state is all its own.
fetch_busybox() {	# DIRECTORY DEBIAN-ARCHITECTURE
	local apt=(apt-get -o "APT::Architecture=$2" -o "APT::Architectures::=$2"
		   -o "Dir::State=$1/apt" -o "Dir::Cache=$1/apt" -o Dir::State::status=/dev/null)

	mkdir -p "$1"/apt/{lists,archives}/partial && cd "$1" || return
	# The lists that could be had may do.
	"${apt[@]}" update || true
	"${apt[@]}" download busybox-static && dpkg-deb -x busybox-static_*.deb "$1"
}

set_busybox() {	# DIRECTORY: sets BUSYBOX, a static one of the guest's architecture
	if [[ $ARCH == x86_64 ]]; then
		BUSYBOX=$(command -v busybox) ||
			die "busybox is missing" "apt-get install busybox-static"
		! ldd "$BUSYBOX" >/dev/null 2>&1 || die "$BUSYBOX is not static" \
			"apt-get install busybox-static"
		return
	fi
	BUSYBOX=$1/busybox
	[[ ! -x $BUSYBOX ]] || return 0
	half_made "$1/busybox.new"
	step GUEST "busybox-static of Debian's ppc64el" "$BUILD/log/busybox-$ARCH.log" \
		fetch_busybox "$1/busybox.new" ppc64el ||
		die "busybox-static for ppc64el cannot be had" \
			"read $BUILD/log/busybox-$ARCH.log; or put a static one at $BUSYBOX"
	mv "$1/busybox.new/bin/busybox" "$BUSYBOX"
	rm -rf "$1/busybox.new"
}

guest_initramfs() {	# build/guest-<arch>/initramfs.gz: busybox, init, the programs
	local dir=$BUILD/guest-$ARCH root

	set_busybox "$dir"
	guest_make -q >/dev/null 2>&1 ||
		step GUEST "programs of the guest" "$BUILD/log/guest-$ARCH.log" guest_make || {
		grep -m 5 'error:\|undefined reference' "$BUILD/log/guest-$ARCH.log" >&2 || true
		die "the guest programs do not compile" "read $BUILD/log/guest-$ARCH.log"
	}
	INITRAMFS=$dir/initramfs.gz
	! is_newest "$INITRAMFS" "$dir"/bin/* "$TOP/tests/guest/init" || return 0

	root=$dir/root.new
	half_made "$root"
	half_made "$INITRAMFS.new"
	rm -rf "$root"
	mkdir -p "$root"/{bin,proc,sys,dev,tmp}
	cp "$BUSYBOX" "$root/bin/busybox"
	ln -s busybox "$root/bin/sh"
	cp "$TOP/tests/guest/init" "$root/init"
	chmod 755 "$root/init"
	find "$dir/bin" -type f -exec cp -t "$root/bin" --remove-destination {} +
	cpio_of "$root" >"$INITRAMFS.new"
	mv "$INITRAMFS.new" "$INITRAMFS"
	rm -rf "$root"
}

cpio_of() {	# DIRECTORY
	(cd "$1" && find . -mindepth 1 | sort |
		cpio --quiet -o -H newc -R 0:0 | gzip -1)
}

job_header() {	# JOB KEY DEFAULT: a line "# KEY: value" of a job
	local value

	value=$(sed -n "s/^# $2: *//p" "$1" | head -n 1)
	echo "${value:-$3}"
}

add_job() {	# JOB OUT: the initramfs with this script as /job, and what it needs
	local dir tool

	dir=$BUILD/job-files.$$
	half_made "$dir"
	rm -rf "$dir"
	mkdir "$dir"
	for tool in $(job_header "$1" NEEDS ""); do
		guest_tool "$tool"
		cp -a "$TOOL_DIR/." "$dir"
	done
	cp "$1" "$dir/job"
	chmod 755 "$dir/job"
	cpio_of "$dir" | cat "$INITRAMFS" - >"$2"
}

USER_CPUS=${CPUS-} USER_MEM=${MEM-} USER_TIMEOUT=${TIMEOUT-}
# Before any work is done.
[[ ! $USER_CPUS ]] || check_number CPUS "$USER_CPUS" 4
[[ ! $USER_TIMEOUT ]] || check_number TIMEOUT "$USER_TIMEOUT" 600
[[ ! $USER_MEM || $USER_MEM =~ ^[1-9][0-9]*[MG]$ ]] ||
	die "MEM=$USER_MEM is no size" "for example MEM=768M"

# Exports what run-guest reads: the user's word, then the job's, then the scenario's.
guest_settings() {	# JOB FRAGMENT
	local file=$TOP/configs/$2.boot

	[[ -f $file ]] || die "there is no $file" "write it: CPUS= MEM= APPEND_$ARCH="
	! grep -vE '^(#|$|(CPUS|MEM|APPEND_(x86_64|powerpc))=)' "$file" >&2 ||
		die "$file has a line that nothing reads" "see configs/LOCKDEP.boot"
	CPUS=$(job_header "$1" CPUS "$(scenario "$file" CPUS)")
	MEM=${USER_MEM:-$(job_header "$1" MEM "$(scenario "$file" MEM)")}
	TIMEOUT=${USER_TIMEOUT:-$(job_header "$1" TIMEOUT 300)}
	APPEND=$(scenario "$file" "APPEND_$ARCH")
	JOB_ACCEL=$(job_header "$1" ACCEL "$ACCEL")
	PLUGIN=$(job_header "$1" PLUGIN "")
	# A cure for multi-threaded emulation, which KVM does not need; a plugin does.
	[[ $JOB_ACCEL != single || $ACCEL == tcg || $PLUGIN ]] || JOB_ACCEL=$ACCEL
	# QEMU counts instructions on one CPU only.
	[[ $JOB_ACCEL == icount ]] || CPUS=${USER_CPUS:-$CPUS}
	export CPUS MEM TIMEOUT APPEND PLUGIN
}

scenario() {	# FILE KEY
	sed -n "s/^$2=//p" "$1" | sed 's/^"\(.*\)"$/\1/'
}

# A /dev/kvm in a container or a nested guest may open and still run nothing, or, without
# a virtualising processor, interpret each instruction and take minutes to boot: believe
# it with such a processor and once it has run a BIOS up to "no bootable device".
kvm_works() {
	[[ $ARCH == x86_64 && -w /dev/kvm ]] && grep -qwE 'vmx|svm' /proc/cpuinfo && timeout 5 qemu-system-x86_64 -M pc -accel kvm -cpu host \
		-nodefaults -display none -no-reboot -boot reboot-timeout=1
}

# Sets ACCEL to kvm, tcg, single (tcg whose CPUs take turns) or icount: one CPU whose
# clock counts instructions.
choose_accel() {
	case ${ACCEL:-auto} in
	auto)
		if kvm_works >&/dev/null; then
			ACCEL=kvm
		else
			ACCEL=tcg
			say QEMU "no working KVM here: emulation (tcg), whose times are no machine's"
		fi
		;;
	kvm)
		[[ $ARCH == x86_64 ]] || die "ACCEL=kvm is for ARCH=x86_64" "use ACCEL=tcg"
		kvm_works >&/dev/null || die "ACCEL=kvm: /dev/kvm is missing, not writable or runs nothing, or the processor has no VT-x or AMD-V" \
			"load kvm_intel or kvm_amd and join the group kvm, or use ACCEL=tcg"
		;;
	tcg | single | icount) ;;
	*)
		die "ACCEL=$ACCEL is not known" "use auto, kvm or tcg"
		;;
	esac
	export ACCEL
}

# Sets QEMU, a command without its serial ports.
qemu_command() {	# KERNEL-DIRECTORY INITRD
	local append="panic=-1 oops=panic panic_on_warn=1 spf.cpus=$CPUS ${APPEND-}"

	QEMU=("$QEMU_PROGRAM" -display none -monitor none -nodefaults -no-reboot -m "$MEM"
	      -kernel "$1/$IMAGE" -initrd "$2")
	if [[ $ARCH == powerpc ]]; then
		qemu_powerpc
	else
		qemu_x86
	fi
	QEMU+=(-append "$append")
}

qemu_x86() {
	local khz

	case $ACCEL in
	kvm)
		QEMU+=(-M pc -accel kvm -cpu host)
		;;
	tcg)
		QEMU+=(-M pc -accel "tcg,thread=multi" -cpu max)
		;;
	single)
		QEMU+=(-M pc -accel "tcg,thread=single" -cpu max)
		;;
	icount)
		QEMU+=(-M pc -accel tcg -icount "shift=0,sleep=off" -cpu qemu64)
		;;
	esac
	# One socket a CPU: the MP table lists only the first CPU of each.
	QEMU+=(-smp "$CPUS,sockets=$CPUS")
	append="console=ttyS0 clocksource=tsc tsc=reliable no_timer_check spf.port=ttyS1 $append"
	# What the guest would measure at boot is wrong by a factor on a loaded host.
	[[ $ACCEL != tcg && $ACCEL != single ]] ||
		! khz=$("$BUILD/guest-$ARCH/bin/tsckhz" 2>/dev/null) || append+=" tsc_early_khz=$khz"
}

# The CPUs take turns: multi-threaded, QEMU 7.2 loses stores of a ppc64 guest.
qemu_powerpc() {
	QEMU+=(-M "pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off,cap-hpt-max-page-size=16m"
	       -cpu POWER9 -smp "$CPUS" -accel "tcg,thread=single")
	[[ $ACCEL != icount ]] || QEMU+=(-icount "shift=0,sleep=off")
	append="console=hvc0 spf.port=hvc1 spf.mmu=$MMU $append"
	[[ $MMU == radix ]] || append+=" disable_radix"
}
