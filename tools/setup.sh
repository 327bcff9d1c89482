#!/bin/sh
# Installs the Debian packages that building ("build") or testing ("check") needs
# and that are missing.  Elsewhere it says what is needed.
set -eu
want="gcc make lua5.4 liblua5.4-dev"
if [ "${1:-build}" = check ]; then
	want="$want lua-busted lua-dkjson luarocks lua-check clang clang-format"
fi
missing=""
if command -v dpkg-query >/dev/null 2>&1; then
	for p in $want; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
	done
else
	command -v lua5.4 >/dev/null 2>&1 && exit 0
	echo "not a Debian system: please install Lua 5.4 with headers and a C compiler ($want)" >&2
	exit 0
fi
[ -n "$missing" ] || exit 0
echo "installing:$missing"
run=""
[ "$(id -u)" = 0 ] || run=sudo
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
$run apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 || {
	$run apt-get update -qq
	$run apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
