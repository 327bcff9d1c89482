-- wgmma: every shape and type, A from shared memory and from registers, K-major and MN-major, over swizzles, offsets
-- and
-- starts of the descriptors; integers (exact), normal numbers (how the tensor core adds) and any bits.  Memory is
-- random, so
-- that nothing here has to know where an element lies.
local numbers = require "spec.device.numbers"

local A_BYTES, IMAGE = 32768, 98304
local PERIOD = 10352 -- of what fills an image: no multiple of a swizzle's

-- ---- descriptors: { swizzle mode, leading, stride, start, base offset } --------------------------------------

local k_major = {
  { 0, 128, 256, 0 }, { 0, 4096, 128, 0 }, { 0, 128, 256, 1024 }, { 0, 16, 512, 48 },
  { 3, 16, 256, 0 }, { 3, 1024, 512, 256 }, { 2, 16, 512, 0 }, { 2, 16, 512, 32 }, { 2, 64, 1024, 512 },
  { 1, 16, 1024, 0 }, { 1, 16, 1024, 32 }, { 1, 1024, 1024, 64 }, { 1, 16, 1024, 96 }, { 1, 16, 1024, 2048 },
  { 1, 16, 1024, 256, 2 }, { 2, 16, 512, 128, 1 }, { 1, 16, 1024, 128, 0 }, { 1, 16, 512, 0 },
}

local mn_major = {
  { 0, 1024, 128, 0 }, { 0, 128, 256, 0 }, { 0, 8192, 512, 128 },
  { 3, 512, 256, 0 }, { 3, 1024, 512, 256 }, { 2, 1024, 512, 0 }, { 2, 512, 8192, 512 }, { 2, 1024, 512, 32 },
  { 1, 2048, 1024, 0 }, { 1, 1024, 8192, 0 }, { 1, 2048, 1024, 64 }, { 1, 2048, 1024, 1024 },
}

local function descriptor(d, region)
  return d[1] << 62 | (d[5] or 0) << 49 | (d[3] >> 4) << 32 | (d[2] >> 4) << 16 | (region + d[4]) >> 4
end

-- Pairs of descriptors for N: with 64 columns all of them, elsewhere a few, others for each N.
local function pairs_for(n, a_list, b_list)
  local list = {}
  if n == 64 then
    for _, a in ipairs(a_list) do
      for _, b in ipairs(b_list) do list[#list + 1] = { a, b } end
    end
  else
    for j = 1, 4 do
      local at = n // 8 * 4 + j
      list[j] = { a_list[at % #a_list + 1], b_list[(at * 5 + 1) % #b_list + 1] }
    end
  end
  return list
end

-- ---- data: a block of memory a kind of numbers, of each pair of types ------------------------------------------

local function image(a, b, kind)
  local function region(type, bytes, seed)
    local block = numbers.memory(type, PERIOD, kind, seed)
    return block:rep(bytes // PERIOD + 1):sub(1, bytes)
  end
  return region(a, A_BYTES, 1) .. region(b, IMAGE - A_BYTES, 2)
end

local ROW = 544 -- a thread's: 128 registers of D, 4 of A, the metadata

local made = {}
local function data(t, kinds)
  local key = t.d .. t.a .. t.b
  if not made[key] then
    local images, rows = {}, {}
    for i, kind in ipairs(kinds) do
      images[i] = image(t.a, t.b, kind)
      rows[i] = numbers.rows(128, ROW, { { t.d, 512 }, { t.a, 16 }, { "metadata." .. t.a, 4 } }, kind, i)
    end
    made = { [key] = { table.concat(images), table.concat(rows) } }
  end
  return table.unpack(made[key])
end

-- ---- kernels
-- ---------------------------------------------------------------------------------------------------------

local frame = [[
.visible .entry KERNEL(.param .u64 images, .param .u64 rows, .param .u64 configs, .param .u64 out)
{
 .reg .pred %%p<4>; .reg .b32 %%r<60>; .reg .b32 %%d<128>; .reg .b64 %%rd<20>;
 mov.u32 %%r0, %%tid.x; mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, tile;
 ld.param.u64 %%rd1, [images]; ld.param.u64 %%rd2, [rows]; ld.param.u64 %%rd3, [configs]; ld.param.u64 %%rd4, [out];
 mad.wide.u32 %%rd3, %%r1, 32, %%rd3;
 ld.global.v2.b64 {%%rd5, %%rd6}, [%%rd3]; ld.global.v2.b32 {%%r3, %%r4}, [%%rd3+16];
 setp.ne.u32 %%p0, %%r4, 0;
 mad.wide.u32 %%rd1, %%r3, %d, %%rd1; mad.lo.u32 %%r5, %%r3, 128, %%r0; mad.wide.u32 %%rd2, %%r5, %d, %%rd2;
 mad.lo.u32 %%r5, %%r1, 128, %%r0; mad.wide.u32 %%rd4, %%r5, %d, %%rd4;
 mul.wide.u32 %%rd7, %%r0, 16; add.u64 %%rd7, %%rd1, %%rd7; mad.lo.u32 %%r6, %%r0, 16, %%r2; mov.u32 %%r7, %%r0;
FILL:
 ld.global.v2.b64 {%%rd8, %%rd9}, [%%rd7]; st.shared.v2.b64 [%%r6], {%%rd8, %%rd9};
 add.u64 %%rd7, %%rd7, 2048; add.u32 %%r6, %%r6, 2048; add.u32 %%r7, %%r7, 128; setp.lt.u32 %%p1, %%r7, %d;
 @%%p1 bra FILL;
 fence.proxy.async;
 bar.sync 0;
 and.b32 %%r8, %%r2, 0x3ffff; shr.u32 %%r8, %%r8, 4; cvt.u64.u32 %%rd10, %%r8;
 add.u64 %%rd5, %%rd5, %%rd10; add.u64 %%rd6, %%rd6, %%rd10;
 ld.global.v4.b32 {%%r10, %%r11, %%r12, %%r13}, [%%rd2+512]; ld.global.b32 %%r14, [%%rd2+528];
%s
 wgmma.fence.sync.aligned;
 %s {%s}, %s, %%rd6%s;
 wgmma.commit_group.sync.aligned;
 wgmma.wait_group.sync.aligned 0;
%s
 ret;
}
]]

local function kernel(t, n, options)
  local count = t.d == "f16" and n // 4 or n // 2
  local d, loads, stores = {}, {}, {}
  for i = 0, count - 1 do
    d[i + 1] = "%d" .. i
    loads[i + 1] = (" ld.global.b32 %%d%d, [%%rd2+%d];"):format(i, 4 * i)
    stores[i + 1] = (" st.global.b32 [%%rd4+%d], %%d%d;"):format(4 * i, i)
  end
  local k = ({ f16 = 16, bf16 = 16, tf32 = 8, b1 = 256 })[t.a] or 32
  if options.sparse then k = 2 * k end
  local name = ("wgmma.mma_async%s.sync.aligned.m64n%dk%d.%s.%s.%s%s"):format(options.sparse and ".sp" or "", n, k,
    t.d, t.a,
    t.b, t.tail or "")
  local a = options.registers and "{%r10, %r11, %r12, %r13}" or "%rd5"
  local tail = options.sparse and (", %%r14, %d"):format(options.selector) or ""
  tail = tail .. ", %p0"
  if t.scales then
    tail = tail .. ", " .. (options.scale_a or 1) .. ", " .. (options.scale_b or 1)
    if t.majors then
      if not options.registers then tail = tail .. ", " .. (options.a_mn and 1 or 0) end
      tail = tail .. ", " .. (options.b_mn and 1 or 0)
    end
  end
  return ".extern .shared .align 1024 .b8 tile[];\n" .. frame:format(IMAGE, ROW, 4 * count, IMAGE // 16,
    table.concat(loads, "\n"), name, table.concat(d, ", "), a, tail, table.concat(stores, "\n")), 4 * count
end

local function add_case(add, t, n, options)
  local text, bytes = kernel(t, n, options)
  local list = pairs_for(n, options.a_mn and mn_major or k_major, options.b_mn and mn_major or k_major)
  local kinds = numbers.kinds(t.a)
  local images, rows = data(t, kinds)
  local configs = {}
  for i, pair in ipairs(list) do
    for kind = 1, #kinds do
      -- any bits in a few, for NaN hides the rest
      if kinds[kind] ~= "bits" or #kinds == 1 or i % 4 == 1 then
        configs[#configs + 1] = string.pack("<i8i8I4I4i8", descriptor(pair[1], 0), descriptor(pair[2], A_BYTES),
          kind - 1,
          i % 3 == 0 and 0 or 1, 0)
      end
    end
  end
  local family = ("%s%s.%s.%s%s A %s%s, B %s%s"):format(options.sparse and "sp " or "", t.d, t.a, t.b, t.tail or "",
    options.registers and "registers" or options.a_mn and "MN" or "K", options.selector == 1 and " selector 1" or "",
    options.b_mn and "MN" or "K", options.scale_a and (" scales %d %d"):format(options.scale_a, options.scale_b) or "")
  add { name = ("wgmma %s, n%d"):format(family, n), family = family, text = text, stride = 4, grid = { #configs },
    block = { 128 }, smem = IMAGE, result = t.d,
    args = { { input = images }, { input = rows }, { input = table.concat(configs) },
      { output = #configs * 128 * bytes } } }
end

-- ---- which
-- -----------------------------------------------------------------------------------------------------------

local function types()
  local list = {
    { d = "f32", a = "f16", b = "f16", scales = true, majors = true },
    { d = "f16", a = "f16", b = "f16", scales = true, majors = true },
    { d = "f32", a = "bf16", b = "bf16", scales = true, majors = true },
    { d = "f32", a = "tf32", b = "tf32", scales = true },
  }
  for _, d in ipairs { "f32", "f16" } do
    for _, a in ipairs { "e4m3", "e5m2" } do
      for _, b in ipairs { "e4m3", "e5m2" } do list[#list + 1] = { d = d, a = a, b = b, scales = true } end
    end
  end
  for _, tail in ipairs { "", ".satfinite" } do
    for _, a in ipairs { "s8", "u8" } do
      for _, b in ipairs { "s8", "u8" } do list[#list + 1] = { d = "s32", a = a, b = b, tail = tail } end
    end
  end
  list[#list + 1] = { d = "s32", a = "b1", b = "b1", tail = ".and.popc" }
  return list
end

local function columns(t)
  local list = {}
  for n = 8, 256, 8 do
    if t.d ~= "s32" or n <= 24 or n % 16 == 0 then list[#list + 1] = n end
  end
  return list
end

local function placements(t)
  if not t.majors then return { {}, { registers = true } } end
  return { {}, { a_mn = true }, { b_mn = true }, { a_mn = true, b_mn = true }, { registers = true },
    { registers = true, b_mn = true } }
end

local function with(options, more)
  local out = {}
  for key, value in pairs(options) do out[key] = value end
  for key, value in pairs(more) do out[key] = value end
  return out
end

return function()
  local cases = {}
  local function add(case) cases[#cases + 1] = case end
  for _, t in ipairs(types()) do
    for _, options in ipairs(placements(t)) do
      for _, n in ipairs(columns(t)) do add_case(add, t, n, options) end
    end
    if t.scales then
      for _, scales in ipairs { { -1, 1 }, { 1, -1 }, { -1, -1 } } do
        for _, n in ipairs { 8, 40, 256 } do add_case(add, t, n, { scale_a = scales[1], scale_b = scales[2] }) end
      end
    end
    if t.a ~= "b1" then
      local both = t.a == "f16" or t.a == "bf16" or t.a == "tf32"
      for selector = 0, both and 1 or 0 do
        for _, options in ipairs(placements(t)) do
          for _, n in ipairs { 8, 48, 64, 256 } do add_case(add, t, n, with(options, { sparse = true,
            selector = selector })) end
        end
      end
    end
  end
  -- sparse ones of more columns
  for _, t in ipairs(types()) do
    for _, n in ipairs(t.a == "b1" and {} or columns(t)) do
      if n ~= 8 and n ~= 48 and n ~= 64 and n ~= 256 and (n % 40 == 0 or n % 32 == 8 or n == 96 or n == 224) then
        add_case(add, t, n, { sparse = true, selector = 0 })
      end
    end
  end
  return cases
end
