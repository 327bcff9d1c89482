#!/bin/sh
# Runs the specs, each file in a process of its own, as many at a time as there
# are cores, and ends in a line "N passed, N failed, N skipped".
# TAGS=gpu or TAGS=slow runs those specs instead of the ordinary ones, SPECS the files it names.
# SANITIZED=address or thread: the module was built with that sanitizer.
# With REQUIRE_ASSEMBLER a machine without nvJitLink has failed.
set -u
BUILD=${BUILD:-build}
LUA=${LUA:-lua5.4}
out=$BUILD/spec${TAGS:+-$TAGS}
jobs=$(nproc 2>/dev/null || echo 2)
if [ "${1:-}" != --one ]; then rm -rf "$out"; fi
mkdir -p "$out"
if [ -n "${TAGS:-}" ]; then select="--tags=$TAGS --exclude-tags=none"; else select="--exclude-tags=gpu,slow"; fi
preload=
case ${SANITIZED:-} in
address)
	preload=$(${CC:-gcc} -print-file-name=libasan.so):$(${CC:-gcc} -print-file-name=libubsan.so)
	export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1
	;;
thread)
	preload=$(${CC:-gcc} -print-file-name=libtsan.so)
	export TSAN_OPTIONS=halt_on_error=1:suppressions=tools/tsan.supp
	;;
esac
if [ -n "${REQUIRE_ASSEMBLER:-}" ] && [ "${1:-}" != --one ]; then
	LD_PRELOAD=$preload $LUA -e 'assert(require "tcmma".versions().nvjitlink)' >/dev/null 2>&1 ||
		{ echo "nvJitLink was not found: no emitted kernel can be assembled"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
fi
export LUA BUILD select out preload
BUSTED=$(command -v busted) || { echo "busted is missing: apt-get install lua-busted"; echo "0 passed, 1 failed"; exit 1; }
export BUSTED
run_one() {
	name=$(basename "$1" .lua)
	LD_PRELOAD=$preload $LUA "$BUSTED" -o tools/busted_output.lua $select "$1" >"$out/$name.log" 2>&1
	rc=$?
	grep -q '^RESULT ' "$out/$name.log" || echo "RESULT 0 1 0 (ended with status $rc)" >>"$out/$name.log"
	grep -E '^(FAIL|SKIP|    )' "$out/$name.log"
	echo "$name: $(sed -n 's/^RESULT //p' "$out/$name.log" | tail -n 1 | awk '{print $1 " passed, " $2 " failed, " $3 " skipped" ($4 != "" ? ", " substr($0, index($0, $4)) : "")}')"
	grep -q 'ended with status' "$out/$name.log" && tail -n 30 "$out/$name.log"
	return 0
}
if [ "${1:-}" = --one ]; then
	run_one "$2"
	exit 0
fi
ls ${SPECS:-"${SPEC_DIR:-spec}"/*_spec.lua} | xargs -P "$jobs" -I{} sh "$0" --one {}
cat "$out"/*.log | awk '/^RESULT /{p += $2; f += $3; s += $4} END {
	printf "%d passed, %d failed, %d skipped\n", p, f, s; exit (f > 0 || p == 0) }'
