-- Loads and stores in every spelling: orders and scopes, cache operators, eviction and prefetch hints, policies, state
-- spaces, types and vectors; and what only prepares an access.
local kernels = require "spec.device.kernels"
local operands = require "spec.device.operands"

local ROWS = 512

local types = { "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64" }
local orders = { "", ".weak", ".volatile", ".relaxed.cta", ".relaxed.cluster", ".relaxed.gpu", ".relaxed.sys" }
local registers = { [8] = "%h", [16] = "%h", [32] = "%r", [64] = "%rd" }

-- A cell of 32 bytes a thread in each space, with what the thread's row of input holds; %rd8 is its address, or %r8.
local spaces = {
  [".global"] = " add.u64 %rd8, %rd2, 32;",
  [".shared"] = " .shared .align 32 .b8 cells[4096]; mov.u32 %r70, cells; mov.u32 %r71, %tid.x;\n"
    .. " mad.lo.u32 %r8, %r71, 32, %r70;",
  [".local"] = " .local .align 32 .b8 cells[32]; mov.u64 %rd8, cells;",
}
spaces[".shared::cta"] = spaces[".shared"]
spaces[".shared::cluster"] = spaces[".shared"]
spaces[""] = spaces[".global"]

local function at(space, offset)
  return ("[%s+%d]"):format(space:match "shared" and "%r8" or "%rd8", offset or 0)
end

local function vector(register, first, count)
  local list = {}
  for i = 1, count do list[i] = register .. first + i - 1 end
  return count == 1 and list[1] or "{" .. table.concat(list, ", ") .. "}"
end

return function()
  local cases, seen = {}, {}
  local function add(name, body)
    if seen[name] then return end
    seen[name] = true
    cases[#cases + 1] = { name = name, family = name:match "^%a+", text = kernels.entry(32, 64, body), stride = 64,
      block = { 128 }, grid = { ROWS // 128 }, args = { { input = operands.bytes(ROWS * 32, 77) },
        { output = ROWS * 64 } } }
  end
  local function around(space, body)
    local plain = space:match "shared" and ".shared" or space == ".local" and ".local" or ".global"
    return table.concat({ spaces[space],
      " ld.global.v2.b64 {%rd20, %rd21}, [%rd1]; ld.global.v2.b64 {%rd22, %rd23}, [%rd1+16];",
      (" st%s.v2.b64 %s, {%%rd20, %%rd21}; st%s.v2.b64 %s, {%%rd22, %%rd23};"):format(plain, at(space), plain,
        at(space, 16)),
      body,
      (" ld%s.v2.b64 {%%rd24, %%rd25}, %s; ld%s.v2.b64 {%%rd26, %%rd27}, %s;"):format(plain, at(space), plain,
        at(space, 16)),
      " st.global.v2.b64 [%rd2+32], {%rd24, %rd25}; st.global.v2.b64 [%rd2+48], {%rd26, %rd27};" }, "\n")
  end
  -- tail: behind the address, as ", %rd9"; source: an address of its own, of what nobody writes.
  local function load(name, space, type, count, tail, source)
    local bits = operands.bits[type]
    local list = vector(registers[bits], 10, count)
    local keep = {}
    for i = 1, count do
      keep[i] = (" st.global.b%d [%%rd2+%d], %s%d;"):format(bits, (i - 1) * bits // 8, registers[bits], 9 + i)
    end
    add(name, around(space, (" %s %s, %s%s;\n%s"):format(name, list, source or at(space, 0), tail or "",
      table.concat(keep, "\n"))))
  end
  local function store(name, space, type, count, tail)
    local bits = operands.bits[type]
    local parts = {}
    for i = 1, count do
      parts[i] = (" ld.global.b%d %s%d, [%%rd1+%d];"):format(bits, registers[bits], 9 + i, 32 - i * bits // 8)
    end
    add(name, around(space, ("%s\n %s %s, %s%s;"):format(table.concat(parts, "\n"), name, at(space, 0),
      vector(registers[bits], 10, count), tail or "")))
  end

  for _, space in ipairs { "", ".global", ".shared", ".shared::cta", ".shared::cluster" } do
    for _, type in ipairs(types) do
      for _, order in ipairs(orders) do
        load(("ld%s%s.%s"):format(order, space, type), space, type, 1)
        store(("st%s%s.%s"):format(order, space, type), space, type, 1)
      end
      for _, scope in ipairs { "cta", "cluster", "gpu", "sys" } do
        load(("ld.acquire.%s%s.%s"):format(scope, space, type), space, type, 1)
        store(("st.release.%s%s.%s"):format(scope, space, type), space, type, 1)
      end
    end
  end
  for _, type in ipairs(types) do
    for _, space in ipairs { "", ".global", ".shared", ".local" } do
      for count = 2, 4, 2 do
        if operands.bits[type] * count <= 128 then
          for _, order in ipairs(space == ".local" and { "" } or { "", ".volatile", ".relaxed.gpu" }) do
            load(("ld%s%s.v%d.%s"):format(order, space, count, type), space, type, count)
            store(("st%s%s.v%d.%s"):format(order, space, count, type), space, type, count)
          end
        end
      end
    end
    for _, cache in ipairs { "ca", "cg", "cs", "lu", "cv", "L1::no_allocate", "L1::evict_first", "L1::evict_last",
      "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B", "L1::evict_last.L2::256B" } do
      load(("ld.global.%s.%s"):format(cache, type), ".global", type, 1)
    end
    for _, cache in ipairs { "wb", "cg", "cs", "wt", "L1::no_allocate", "L1::evict_last", "L1::evict_normal" } do
      store(("st.global.%s.%s"):format(cache, type), ".global", type, 1)
    end
    load("ld.mmio.relaxed.sys.global." .. type, ".global", type, 1)
    store("st.mmio.relaxed.sys.global." .. type, ".global", type, 1)
    load("ldu.global." .. type, ".global", type, 1)
  end
  for _, type in ipairs(types) do
    for _, name in ipairs { "ld.global.nc", "ld.global.ca.nc", "ld.global.nc.L1::no_allocate.L2::128B" } do
      load(("%s.%s"):format(name, type), ".global", type, 1, nil, "[%rd1+8]")
    end
    for count = 2, 4, 2 do
      if operands.bits[type] * count <= 128 then
        load(("ld.global.nc.v%d.%s"):format(count, type), ".global", type, count, nil, "[%rd1+16]")
      end
    end
  end
  for _, space in ipairs { "", ".global", ".shared" } do
    for _, order in ipairs { "", ".volatile", ".relaxed.gpu", ".acquire.gpu", ".release.gpu" } do
      local loads, stores = order ~= ".release.gpu", order ~= ".acquire.gpu"
      if loads then
        add(("ld%s%s.b128"):format(order, space), around(space,
          (" ld%s%s.b128 %%q1, %s; mov.b128 {%%rd5, %%rd6}, %%q1;\n"
          .. " st.global.v2.b64 [%%rd2], {%%rd6, %%rd5};"):format(order, space, at(space))))
      end
      if stores then
        add(("st%s%s.b128"):format(order, space), around(space,
          (" mov.b128 %%q1, {%%rd23, %%rd20};\n st%s%s.b128 %s, %%q1;")
          :format(order, space, at(space, 16))))
      end
    end
  end
  for _, policy in ipairs { "fractional.L2::evict_first.b64 %rd9, 0.5", "fractional.L2::evict_last.b64 %rd9",
    "fractional.L2::evict_normal.b64 %rd9, 1.0", "fractional.L2::evict_unchanged.b64 %rd9, 0.25",
    "fractional.L2::evict_first.L2::evict_unchanged.b64 %rd9, 0.5",
    "fractional.L2::evict_last.L2::evict_unchanged.b64 %rd9, 0.5",
    "range.L2::evict_last.b64 %rd9, [%rd8], 64, 128", "range.global.L2::evict_last.b64 %rd9, [%rd8], 64, 128",
    "range.global.L2::evict_first.L2::evict_unchanged.b64 %rd9, [%rd8], 64, 128",
    "cvt.L2.b64 %rd9, %rd19" } do
    add("createpolicy." .. policy, around(".global", ([[
 mov.u64 %%rd19, 0x12F0000000000000;
 createpolicy.%s;
 ld.global.L2::cache_hint.b32 %%r10, [%%rd8], %%rd9;
 not.b32 %%r10, %%r10; st.global.L2::cache_hint.b32 [%%rd8+8], %%r10, %%rd9;]]):format(policy)))
  end
  for _, form in ipairs { "atom.global.add.L2::cache_hint.u32 %r10, ", "red.global.add.L2::cache_hint.u32 ",
    "atom.relaxed.gpu.global.max.L2::cache_hint.s32 %r10, ", "red.relaxed.gpu.global.xor.L2::cache_hint.b32 " } do
    local text = " createpolicy.fractional.L2::evict_last.b64 %%rd9; ld.global.b32 %%r11, [%%rd1];\n"
      .. " mov.u32 %%r10, 0; %s[%%rd8+12], %%r11, %%rd9; st.global.b32 [%%rd2], %%r10;"
    add(form:match "%S+", around(".global", text:format(form)))
  end
  for _, name in ipairs { "prefetch.global.L1", "prefetch.global.L2", "prefetch.L1", "prefetch.L2", "prefetchu.L1",
    "prefetch.global.L2::evict_last", "prefetch.global.L2::evict_normal" } do
    add(name, around(".global", (" %s [%%rd8];"):format(name)))
  end
  add("prefetch.local.L1", around(".local", " prefetch.local.L1 [%rd8];"))
  -- 128 bytes that this block alone uses, and writes before it reads them
  for _, name in ipairs { "applypriority.global.L2::evict_normal [%rd9], 128", "discard.L2 [%rd9], 128",
    "discard.global.L2 [%rd9], 128" } do
    add(name, around(".global", " and.b64 %rd9, %rd2, 0xffffffffffffff80;\n mov.u32 %r11, %tid.x;\n"
      .. " and.b32 %r11, %r11, 1; setp.eq.u32 %p1, %r11, 0;\n @%p1 " .. name .. ";\n bar.sync 0;\n"
      .. " mov.u64 %rd5, 5; st.global.v2.b64 [%rd2], {%rd5, %rd20}; st.global.v2.b64 [%rd2+16], {%rd5, %rd21};\n"
      .. " st.global.v2.b64 [%rd8], {%rd22, %rd23}; st.global.v2.b64 [%rd8+16], {%rd20, %rd22};"))
  end
  return cases
end
