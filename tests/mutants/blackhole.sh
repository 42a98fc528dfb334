# shellcheck shell=sh
# blackhole.sh: mutants of plugin/blackhole.c: connections that carry nothing large.  check
# says how they are written.

mutant line-is-given-up-too-soon test-blackhole blackhole.c '#define RETRIES 4' '#define RETRIES 2'
mutant line-is-given-up-too-late test-blackhole blackhole.c '#define RETRIES 4' '#define RETRIES 7'
mutant idle-line-is-given-up test-blackhole blackhole.c 'info.tcpi_unacked > 0 &&' 'true ||'
