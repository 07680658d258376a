# SPDX-License-Identifier: GPL-2.0
#
# The beginning of awk programs that read C, in kernel style: sets line, without its
# comments, and func_name, the function that it stands in.

{
	line = $0
	while (match(line, /\/\*([^*]|\*[^\/])*\*\//))
		line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
	if (comment) {
		if (!sub(/^.*\*\//, "", line))
			next
		comment = 0
	}
	if (sub(/\/\*.*$/, "", line))
		comment = 1
	sub(/\/\/.*$/, "", line)
}
line ~ /^[A-Za-z_].*\(/ && line !~ /;[ \t]*$/ {
	func_name = line
	if (sub(/^(COMPAT_)?SYSCALL_DEFINE[0-9]\(/, "", func_name)) {
		sub(/[,)].*$/, "", func_name)
		func_name = "sys_" func_name
	} else {
		sub(/[ \t]*\(.*$/, "", func_name)
		sub(/^.*[ \t*]/, "", func_name)
	}
}
