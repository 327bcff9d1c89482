#!/bin/sh
# Fuzzes the PTX reader and the Lua API, FUZZ_SECONDS each (60), under AddressSanitizer and
# UndefinedBehaviorSanitizer.  Ends in a line "N passed, N failed"; a finding stays in
# $BUILD-fuzz/ and fails the run.
set -u
BUILD=${BUILD:-build}
LUA=${LUA:-lua5.4}
seconds=${FUZZ_SECONDS:-60}
dir=$BUILD-fuzz
flags="-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"
mkdir -p "$dir/corpus" "$dir/findings"
passed=0 failed=0

make --no-print-directory BUILD="$dir" CC=clang OPT="$flags -fsanitize=fuzzer-no-link" \
	"$dir/libtcmma-emu.a" || exit 1
clang $flags -fsanitize=fuzzer -D_GNU_SOURCE -std=c11 -Isrc -o "$dir/ptx" fuzz/ptx.c \
	"$dir/libtcmma-emu.a" -lm -lpthread || exit 1
cp spec/golden/*.ptx spec/witness/*.ptx fuzz/regressions/* "$dir/corpus/" 2>/dev/null
if "$dir/ptx" -max_total_time="$seconds" -max_len=200000 -timeout=20 -rss_limit_mb=4096 \
	-dict=fuzz/ptx.dict -artifact_prefix="$dir/findings/" -print_final_stats=1 \
	"$dir/corpus" >"$dir/ptx.log" 2>&1; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	tail -n 40 "$dir/ptx.log"
fi
grep -E 'stat::number_of_executed_units|stat::new_units_added' "$dir/ptx.log"

make --no-print-directory BUILD="$dir-lua" OPT="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined" \
	LDFLAGS="-fsanitize=address,undefined" all || exit 1
if LD_PRELOAD="$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1 \
	LUA_PATH="./lua/?.lua;./lua/?/init.lua;;" LUA_CPATH="./$dir-lua/?.so;;" TCMMA_DEVICE=emulator \
	$LUA fuzz/api.lua "$seconds" "${FUZZ_SEED:-1}" >"$dir/api.log" 2>&1; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	tail -n 40 "$dir/api.log"
fi
tail -n 1 "$dir/api.log"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
