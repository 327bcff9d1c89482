-- Copies by threads: loads and stores of every type, cp.async, st.async and red.async.
local kernels = require "spec.device.kernels"
local operands = require "spec.device.operands"

local ROWS = 1024

local function case(name, in_bytes, out_bytes, body, options)
  options = options or {}
  return {
    name = name, family = name:match "^%w+", stride = out_bytes, block = { 256 }, grid = { ROWS // 256 },
      cluster = options.cluster,
    text = kernels.entry(in_bytes, out_bytes, body),
    args = { { input = operands.packed(options.type or "b32", ROWS * math.max(in_bytes, 64) * 8
      // operands.bits[options.type or "b32"], 3) }, { output = ROWS * out_bytes } },
  }
end

local function loads(add)
  for _, type in ipairs { "u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32", "u64", "s64", "b64", "f32",
    "f64" } do
    local bits = operands.bits[type]
    for width, register in pairs { [16] = "%h3", [32] = "%r3", [64] = "%rd3" } do
      local float = type:sub(1, 1) == "f"
      if width >= bits and not (float and width > bits) then
        for _, space in ipairs { "global", "shared", "local", "global.nc", "volatile.global", "relaxed.gpu.global",
          "" } do
          local source, prepare = "[%rd1]", ""
          if space == "shared" then
            prepare = " .shared .align 16 .b8 cells[4096]; ld.global.b64 %rd5, [%rd1]; mov.u32 %r70, %tid.x;"
              .. " mov.u32 %r71, cells; mad.lo.u32 %r71, %r70, 16, %r71; st.shared.b64 [%r71], %rd5;\n"
            source = "[%r71]"
          elseif space == "local" then
            prepare = " .local .align 16 .b8 cells[16]; ld.global.b64 %rd5, [%rd1]; mov.u32 %r71, cells;"
              .. " st.local.b64 [%r71], %rd5;\n"
            source = "[%r71]"
          end
          local dotted = space == "" and "" or "." .. space
          add(case(("ld%s.%s into b%d"):format(dotted, type, width), 64, 8, ([[
%s mov.u64 %%rd4, 0; st.global.b64 [%%rd2], %%rd4;
 ld%s.%s %s, %s;
 st.global.b%d [%%rd2], %s;]]):format(prepare, dotted, type, register, source, width, register)))
        end
      end
    end
  end
  for _, vector in ipairs { { 2, "u8", "%h" }, { 4, "s8", "%h" }, { 2, "b16", "%h" }, { 4, "u16", "%h" }, { 2, "b32",
    "%r" },
    { 4, "b32", "%r" }, { 2, "b64", "%rd" }, { 4, "s8", "%r" }, { 2, "s16", "%r" }, { 4, "f32", "%r" } } do
    local count, type, kind = table.unpack(vector)
    local bits = kind == "%h" and 16 or kind == "%r" and 32 or 64
    local list, stores = {}, {}
    for i = 1, count do
      list[i] = ("%s%d"):format(kind, 10 + i)
      stores[i] = (" st.global.b%d [%%rd2+%d], %s;"):format(bits, (i - 1) * bits // 8, list[i])
    end
    add(case(("ld.global.v%d.%s into b%d"):format(count, type, bits), 64, count * bits // 8,
      (" ld.global.v%d.%s {%s}, [%%rd1];\n%s"):format(count, type, table.concat(list, ","), table.concat(stores,
        "\n"))))
    if bits == operands.bits[type] or bits > operands.bits[type] and not type:match "^f" then
      local width = operands.bits[type] // 8
      add(case(("st.global.v%d.%s from b%d"):format(count, type, bits), 64, count * width,
        (" ld.global.v%d.%s {%s}, [%%rd1];\n st.global.v%d.%s [%%rd2], {%s};"):format(count, type, table.concat(list,
          ","),
          count, type, table.concat(list, ","))))
    end
  end
end

local shared_copy = [[
 .shared .align 16 .b8 cells[4096]; .shared .align 8 .b64 bar;
 mov.u32 %%r70, %%tid.x; mov.u32 %%r71, cells; mad.lo.u32 %%r71, %%r70, 16, %%r71; mov.u64 %%rd5, 0xa5a5a5a5a5a5a5a5;
 st.shared.v2.b64 [%%r71], {%%rd5, %%rd5}; mov.u32 %%r72, bar; setp.eq.u32 %%p1, %%r70, 0;
 @%%p1 mbarrier.init.shared.b64 [%%r72], 256;
 bar.sync 0;
 setp.lt.s32 %%p2, %%r70, 100; rem.u32 %%r73, %%r70, %d; mov.u64 %%rd6, 0;
%s
%s
 bar.sync 0;
 mov.u32 %%r74, cells; xor.b32 %%r75, %%r70, 255; mad.lo.u32 %%r74, %%r75, 16, %%r74;
 ld.shared.v2.b64 {%%rd7, %%rd8}, [%%r74]; st.global.v2.b64 [%%rd2], {%%rd7, %%rd8};]]

local function asynchronous(add)
  local wait_group = " cp.async.commit_group; cp.async.wait_group 0;"
  local function copy(name, bytes, text, wait)
    add(case(name, 16, 16, shared_copy:format(bytes + 1, text, wait or wait_group)))
  end
  for _, form in ipairs { { "ca", 4 }, { "ca", 8 }, { "ca", 16 }, { "cg", 16 } } do
    local cache, bytes = table.unpack(form)
    for _, state in ipairs { "shared", "shared::cta" } do
      for _, hint in ipairs { "", ".L2::64B", ".L2::128B", ".L2::256B" } do
        local name = ("cp.async.%s.%s.global%s"):format(cache, state, hint)
        copy(("%s %d"):format(name, bytes), bytes, (" %s [%%r71], [%%rd1], %d;"):format(name, bytes))
      end
    end
    local name = ("cp.async.%s.shared.global"):format(cache)
    for size = 0, bytes, math.max(bytes // 4, 1) do
      copy(("%s %d, %d"):format(name, bytes, size), bytes, (" %s [%%r71], [%%rd1], %d, %d;"):format(name, bytes, size))
    end
    copy(("%s %d, register"):format(name, bytes), bytes, (" %s [%%r71], [%%rd1], %d, %%r73;"):format(name, bytes))
    copy(("%s %d, predicate"):format(name, bytes), bytes, (" %s [%%r71], [%%rd1], %d, %%p2;"):format(name, bytes))
    copy(("%s.L2::cache_hint %d"):format(name, bytes), bytes,
      (" createpolicy.fractional.L2::evict_first.b64 %%rd6, 1.0; %s.L2::cache_hint [%%r71], [%%rd1], %d, %%rd6;")
        :format(name, bytes))
    copy(("%s %d, wait_all"):format(name, bytes), bytes, (" %s [%%r71], [%%rd1], %d;"):format(name, bytes),
      " cp.async.wait_all;")
    copy(("%s %d, mbarrier noinc"):format(name, bytes), bytes, (" %s [%%r71], [%%rd1], %d;"):format(name, bytes), [[
 cp.async.mbarrier.arrive.noinc.shared.b64 [%r72];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r72], 0;
 @!%p3 bra WAIT;]])
    copy(("%s %d, mbarrier"):format(name, bytes), bytes, (" %s [%%r71], [%%rd1], %d;"):format(name, bytes), [[
 cp.async.mbarrier.arrive.shared.b64 [%r72]; mbarrier.arrive.shared.b64 _, [%r72];
WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r72], 0;
 @!%p3 bra WAIT;]])
  end
end

-- Each thread sends its value to its cell in the other CTA of a pair.
local function remote(add)
  local text = [[
 .shared .align 16 .b8 cells[4096]; .shared .align 8 .b64 bar;
 mov.u32 %%r70, %%tid.x; mov.u32 %%r71, cells; mad.lo.u32 %%r71, %%r70, 16, %%r71; mov.u32 %%r72, bar;
 ld.global.v2.b64 {%%rd5, %%rd6}, [%%rd1]; st.shared.v2.b64 [%%r71], {%%rd5, %%rd6}; setp.eq.u32 %%p1, %%r70, 0;
 @%%p1 mbarrier.init.shared.b64 [%%r72], 1;
 @%%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%%r72], %d;
 fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive; barrier.cluster.wait;
 mov.u32 %%r73, %%cluster_ctarank; xor.b32 %%r73, %%r73, 1; mapa.shared::cluster.u32 %%r74, %%r71, %%r73;
 mapa.shared::cluster.u32 %%r75, %%r72, %%r73;
 ld.global.v4.b32 {%%r10, %%r11, %%r12, %%r13}, [%%rd1+16];
 mov.b64 %%rd10, {%%r10, %%r11}; mov.b64 %%rd11, {%%r12, %%r13};
 %s [%%r74], %s, [%%r75];
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%p3, [%%r72], 0;
 @!%%p3 bra WAIT;
 ld.shared.v2.b64 {%%rd7, %%rd8}, [%%r71]; st.global.v2.b64 [%%rd2], {%%rd7, %%rd8};
 barrier.cluster.arrive; barrier.cluster.wait;]]
  local function send(name, bytes, operand)
    add(case(name, 32, 16, text:format(256 * bytes, name, operand), { cluster = { 2 } }))
  end
  local tail = ".shared::cluster.mbarrier::complete_tx::bytes"
  for _, form in ipairs { { "b32", 4, "%r10" }, { "u32", 4, "%r10" }, { "b64", 8, "%rd10" }, { "s64", 8, "%rd10" },
    { "v2.b32", 8, "{%r10, %r11}" }, { "v4.b32", 16, "{%r10, %r11, %r12, %r13}" }, { "v2.b64", 16, "{%rd10, %rd11}" },
    { "f32", 4, "%r10" }, { "v4.f32", 16, "{%r10, %r11, %r12, %r13}" } } do
    send("st.async" .. tail .. "." .. form[1], form[2], form[3])
    send("st.async.weak" .. tail .. "." .. form[1], form[2], form[3])
  end
  for _, form in ipairs { "inc.u32", "dec.u32", "min.u32", "min.s32", "max.u32", "max.s32", "add.u32", "add.s32",
    "add.u64",
    "and.b32", "or.b32", "xor.b32" } do
    send("red.async.relaxed.cluster" .. tail .. "." .. form, form:match "64" and 8 or 4, form:match "64" and "%rd10"
      or "%r10")
  end
end

return function()
  local cases = {}
  local function add(c) cases[#cases + 1] = c end
  loads(add)
  asynchronous(add)
  remote(add)
  return cases
end
