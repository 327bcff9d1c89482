#!/bin/sh
# The C unit programs and a session that records, refuses, compiles, emulates and exits, under
# valgrind: no error, nothing definitely lost.
set -u
BUILD=${BUILD:-build}
LUA=${LUA:-lua5.4}
passed=0 failed=0
check() {
	if valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$@" >"$BUILD/valgrind.log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "valgrind: $*"
		tail -n 40 "$BUILD/valgrind.log"
	fi
}
for unit in "$BUILD"/*_unit; do
	[ -x "$unit" ] && check "$unit"
done
export TCMMA_DEVICE=emulator
check "$LUA" examples/01_first_kernel.lua
check "$LUA" examples/05_bias_relu.lua 128 128 128
check "$LUA" spec/robustness/live.lua
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
