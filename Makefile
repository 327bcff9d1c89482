# tcmma: `make` builds, `make demo` and `make check` are README's two commands.

BUILD ?= build
CC ?= gcc
LUA ?= lua5.4
LUA_INCDIR ?= $(firstword $(wildcard /usr/include/lua5.4 /usr/local/include/lua5.4 /usr/local/include) /usr/include)
OPT ?= -O2
WARN ?= -Wall -Wextra -Werror
CFLAGS ?= $(OPT)
override CFLAGS += -std=c11 -D_GNU_SOURCE $(WARN) -fPIC -fvisibility=hidden \
  -ffp-contract=off -fno-strict-aliasing -MMD -MP
LDLIBS = -lm -ldl -lpthread

SRC := $(wildcard src/*.c)
EMU := $(wildcard src/emu/*.c)
OBJ := $(SRC:src/%.c=$(BUILD)/obj/%.o)
EMUOBJ := $(EMU:src/emu/%.c=$(BUILD)/obj/emu/%.o)

all: $(BUILD)/tcmma/core.so

$(BUILD)/tcmma/core.so: $(OBJ) $(BUILD)/libtcmma-emu.a
	@mkdir -p $(@D)
	$(CC) -shared $(LDFLAGS) -o $@ $(OBJ) $(BUILD)/libtcmma-emu.a $(LDLIBS)

$(BUILD)/libtcmma-emu.a: $(EMUOBJ)
	@rm -f $@
	$(AR) rcs $@ $(EMUOBJ)

$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -I$(LUA_INCDIR) -c -o $@ $<

$(BUILD)/obj/emu/%.o: src/emu/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

env:
	@echo 'export LUA_PATH="$(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;;" LUA_CPATH="$(CURDIR)/$(BUILD)/?.so;;"'

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d) $(EMUOBJ:.o=.d)

.PHONY: all env clean
