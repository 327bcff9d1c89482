# tcmma.  `make demo` and `make check` are README's two commands; `make help` lists the rest.

BUILD ?= build
CC ?= gcc
LUA ?= lua5.4
LUA_INCDIR ?= $(firstword $(wildcard /usr/include/lua5.4 /usr/local/include/lua5.4) /usr/local/include)
PREFIX ?= /usr/local
INST_LIBDIR ?= $(PREFIX)/lib/lua/5.4
INST_LUADIR ?= $(PREFIX)/share/lua/5.4
OPT ?= -O2
WARN ?= -Wall -Wextra -Werror
CFLAGS ?= $(OPT)
# -ffp-contract=off: the emulator's results must not depend on the host having FMA.  Nobody asks for errno of
# mathematical functions or for the flags of floating point, which would keep loops from becoming vector code.
override CFLAGS += -std=c11 -D_GNU_SOURCE $(WARN) -fPIC -fvisibility=hidden \
  -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing -fno-asynchronous-unwind-tables -MMD -MP
LDLIBS = -lm -ldl -lpthread

SRC := $(wildcard src/*.c)
EMU := $(wildcard src/emu/*.c)
UNIT := $(wildcard spec/c/*.c)
LUASRC := $(wildcard lua/tcmma/*.lua)
OBJ := $(SRC:src/%.c=$(BUILD)/obj/%.o)
EMUOBJ := $(EMU:src/emu/%.c=$(BUILD)/obj/emu/%.o)
UNITBIN := $(UNIT:spec/c/%.c=$(BUILD)/%)

PATHS = LUA_PATH="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;$$LUA_PATH;;" \
  LUA_CPATH="$(CURDIR)/$(BUILD)/?.so;$$LUA_CPATH;;"

all: $(BUILD)/tcmma/core.so

help:
	@echo "all         build $(BUILD)/tcmma/core.so"
	@echo "demo        install what is missing, build, run the matmul ladder on the emulator"
	@echo "check       install what is missing, build, run every spec"
	@echo "lint        gcc and clang without warnings, clang-format, luacheck"
	@echo "asan        every spec under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "tsan        specs that run on several host threads, under ThreadSanitizer"
	@echo "valgrind    the C unit programs and a short session under valgrind"
	@echo "fuzz        the PTX parser and the API with random input (FUZZ_SECONDS=60)"
	@echo "soak        the slow specs"
	@echo "bench       speed of the emulator, of recording and of require"
	@echo "bench-gpu   our matmul beside cuBLAS, Triton, Gluon and Pallas on a GPU; writes docs/bench.md and .svg"
	@echo "check-gpu   the specs that need a GPU"
	@echo "check-device-bits  the same PTX on a GPU and on the emulator, bit for bit (DEVICE=none: against results of an H200)"
	@echo "check-sanitizer    spoilt Hopper kernels under compute-sanitizer on a GPU, beside the emulator's reports"
	@echo "unit        the C unit programs"
	@echo "docs        docs/reference.md, docs/errors.md, lua/tcmma/meta.lua and the rockspec from the sources"
	@echo "format      clang-format on all C files"
	@echo "install     into PREFIX ($(PREFIX))"
	@echo "env         print the variables that make require 'tcmma' work from this tree"
	@echo "clean       remove $(BUILD)"

# Of Lua's functions the interpreter has the only copy, so -z defs cannot be used.  Symbols of libc have
# versions, those of compilers and sanitizers begin with _: any other name that is undefined is ours.
UNDEFINED = nm -D --undefined-only $@.part | \
  awk '$$1 == "U" && $$2 !~ /@|^_|^luaL?_/ { name = name " " $$2 } / malloc@/ { versions = 1 } \
    END { if (versions) print name }'

$(BUILD)/tcmma/core.so: $(OBJ) $(BUILD)/libtcmma-emu.a
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) -o $@.part $(OBJ) $(BUILD)/libtcmma-emu.a $(LDLIBS)
	@undefined=$$($(UNDEFINED)); if [ -n "$$undefined" ]; then \
	  echo "error: $@ would lack$$undefined, which nothing in src/ defines"; rm -f $@.part; exit 1; fi
	@mv $@.part $@

$(BUILD)/libtcmma-emu.a: $(EMUOBJ)
	@rm -f $@
	$(AR) rcs $@ $(EMUOBJ)

$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	@test -e $(LUA_INCDIR)/lua.h || { echo "lua.h of Lua 5.4 was not found: apt-get install liblua5.4-dev, or set LUA_INCDIR"; exit 1; }
	$(CC) $(CPPFLAGS) $(CFLAGS) -I$(LUA_INCDIR) -c -o $@ $<

$(BUILD)/obj/emu/%.o: src/emu/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# Programs that test the emulator's library alone.
$(BUILD)/%: spec/c/%.c $(BUILD)/libtcmma-emu.a
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -Isrc -o $@ $< $(BUILD)/libtcmma-emu.a $(LDLIBS)

unit: $(UNITBIN)

setup:
	@sh tools/setup.sh build

setup-check:
	@sh tools/setup.sh check

demo: setup
	@$(MAKE) --no-print-directory all
	@$(PATHS) $(LUA) examples/ladder.lua

check: setup-check
	@$(MAKE) --no-print-directory all unit
	@$(PATHS) BUILD=$(BUILD) LUA=$(LUA) sh tools/check.sh

check-gpu: all
	@$(PATHS) BUILD=$(BUILD) LUA=$(LUA) TAGS=gpu sh tools/check.sh

check-device-bits: all
	@$(PATHS) LUA=$(LUA) $(LUA) spec/device_compare.lua --device $(or $(DEVICE),cuda:0) --out $(BUILD)/device-bits

# The catalogue of faults under compute-sanitizer.
check-sanitizer: all
	@$(PATHS) LUA=$(LUA) $(LUA) spec/device_sanitizer.lua --out $(BUILD)/sanitizer

soak: all unit
	@$(PATHS) BUILD=$(BUILD) LUA=$(LUA) TAGS=slow sh tools/check.sh

lint:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-gcc CC=gcc all unit
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-clang CC=clang all unit
	clang $(CFLAGS) -Isrc -fsyntax-only -MF /dev/null fuzz/ptx.c
	clang-format --dry-run -Werror $(SRC) $(EMU) $(UNIT) fuzz/ptx.c $(wildcard src/*.h src/emu/*.h)
	luacheck -q lua spec examples tools fuzz

SANITIZE = -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
asan:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-asan OPT="$(SANITIZE)" LDFLAGS="-fsanitize=address,undefined" all unit
	@LUA_PATH="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;" LUA_CPATH="$(CURDIR)/$(BUILD)-asan/?.so;;" \
	  BUILD=$(BUILD)-asan LUA=$(LUA) SANITIZED=address sh tools/check.sh

# Host threads: the emulator's launches, and what runs beside them.
TSAN_SPECS = $(addprefix spec/,$(addsuffix _spec.lua,emu_threads cluster))
tsan:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)-tsan OPT="-O1 -g -fsanitize=thread" LDFLAGS="-fsanitize=thread" all
	@LUA_PATH="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;" LUA_CPATH="$(CURDIR)/$(BUILD)-tsan/?.so;;" \
	  BUILD=$(BUILD)-tsan LUA=$(LUA) SANITIZED=thread SPECS="$(TSAN_SPECS)" sh tools/check.sh

fuzz:
	@BUILD=$(BUILD) LUA=$(LUA) FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60) sh tools/fuzz.sh

valgrind: all unit
	@$(PATHS) BUILD=$(BUILD) LUA=$(LUA) sh tools/valgrind.sh

bench: all unit
	@$(PATHS) BUILD=$(BUILD) LUA=$(LUA) $(LUA) bench/run.lua

# Parts that bench/peers.py measures: PARTS=square,decode,llm,tails,fp8,epilogue,launch,latency,pallas
bench-gpu: all
	@$(PATHS) $(LUA) bench/gpu.lua export $(BUILD)/bench
	@python3 bench/peers.py --dir $(BUILD)/bench --out $(BUILD)/bench/peers.json $(if $(PARTS),--parts $(PARTS))
	@$(PATHS) LUA=$(LUA) $(LUA) bench/gpu.lua latency $(BUILD)/bench/latency.json
	@$(PATHS) $(LUA) bench/gpu.lua report $(BUILD)/bench/peers.json $(BUILD)/bench/latency.json

docs: all
	@$(PATHS) $(LUA) tools/docs.lua
	@$(LUA) tools/errors.lua
	@$(LUA) tools/rockspec.lua

format:
	clang-format -i $(SRC) $(EMU) $(UNIT) $(wildcard src/*.h src/emu/*.h)

install: all
	install -d $(DESTDIR)$(INST_LIBDIR)/tcmma $(DESTDIR)$(INST_LUADIR)/tcmma
	install -m 755 $(BUILD)/tcmma/core.so $(DESTDIR)$(INST_LIBDIR)/tcmma/core.so
	install -m 644 $(LUASRC) $(DESTDIR)$(INST_LUADIR)/tcmma

env:
	@echo 'export $(PATHS)'

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d) $(EMUOBJ:.o=.d)

.PHONY: check-device-bits check-sanitizer bench-gpu fuzz all help unit setup setup-check demo check check-gpu soak lint asan tsan valgrind bench docs \
  format install env clean
