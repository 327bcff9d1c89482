-- TMA: loads, stores and reductions of tiles over ranks, element types, swizzles, interleaving, fills, element
-- strides and
-- places inside, across and beyond the edges of the tensor.
local operands = require "spec.device.operands"

local TILE = 32768

local frame = [[
.visible .entry KERNEL(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out, .param .s32 c0, .param .s32 c1,
  .param .s32 c2, .param .s32 c3, .param .s32 c4, .param .u32 bytes, .param .u32 place)
{
 .reg .b64 %%rd<20>; .reg .b32 %%r<60>; .reg .b16 %%h<9>; .reg .pred %%p<8>;
 mov.u32 %%r0, %%ctaid.x; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, tile; add.u32 %%r3, %%r2, %d; setp.eq.u32 %%p0, %%r1, 0;
 ld.param.u64 %%rd1, [in]; ld.param.u64 %%rd2, [out]; mov.u64 %%rd10, map; cvta.param.u64 %%rd10, %%rd10;
 ld.param.s32 %%r10, [c0]; ld.param.s32 %%r11, [c1]; ld.param.s32 %%r12, [c2]; ld.param.s32 %%r13, [c3];
 ld.param.s32 %%r14, [c4]; ld.param.u32 %%r15, [bytes]; ld.param.u32 %%r16, [place];
 mad.wide.u32 %%rd2, %%r0, %d, %%rd2;
 @%%p0 mbarrier.init.shared.b64 [%%r3], 1;
 mov.u32 %%r20, %%r1;
FILL:
 mul.lo.u32 %%r21, %%r20, 16; cvt.u64.u32 %%rd3, %%r21; add.u64 %%rd4, %%rd1, %%rd3; add.u32 %%r22, %%r2, %%r21;
 ld.global.v2.b64 {%%rd5, %%rd6}, [%%rd4]; st.shared.v2.b64 [%%r22], {%%rd5, %%rd6};
 add.u32 %%r20, %%r20, 128; setp.lt.u32 %%p1, %%r20, %d;
 @%%p1 bra FILL;
 fence.proxy.async; fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive; barrier.cluster.wait;
 add.u32 %%r17, %%r2, %%r16;
%s
 barrier.cluster.arrive; barrier.cluster.wait;
%s
 ret;
}
]]

local dump = ([[
 mov.u32 %%r20, %%r1;
DUMP:
 mul.lo.u32 %%r21, %%r20, 16; cvt.u64.u32 %%rd3, %%r21; add.u64 %%rd4, %%rd2, %%rd3; add.u32 %%r22, %%r2, %%r21;
 ld.shared.v2.b64 {%%rd5, %%rd6}, [%%r22]; st.global.v2.b64 [%%rd4], {%%rd5, %%rd6};
 add.u32 %%r20, %%r20, 128; setp.lt.u32 %%p1, %%r20, %d;
 @%%p1 bra DUMP;]]):format(TILE // 16)

local function coordinates(rank) return "{" .. table.concat({ "%r10", "%r11", "%r12", "%r13", "%r14" }, ", ", 1, rank)
  .. "}" end

local function whole(body, tail)
  return ".extern .shared .align 1024 .b8 tile[];\n" .. frame:format(TILE, TILE, TILE // 16, body, tail)
end

local function load_text(rank, space, mask)
  local multicast = mask and ".multicast::cluster" or ""
  local issue =
    ("cp.async.bulk.tensor.%dd.%s.global.tile.mbarrier::complete_tx::bytes%s\n [%%r17], [%%rd10, %s], [%%r3]%s;")
    :format(rank, space, multicast, coordinates(rank), mask and ", %h1" or "")
  local first = mask and " mov.u32 %r30, %cluster_ctarank; setp.eq.u32 %p4, %r30, 0; and.pred %p4, %p4, %p0;"
    .. (" mov.u16 %%h1, %d;\n @%%p4 "):format(mask) or " @%p0 "
  return whole(" @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], %r15;\n"
    .. " barrier.cluster.arrive; barrier.cluster.wait;\n"
    .. first .. issue .. [[

WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0;
 @!%p3 bra WAIT;]], dump)
end

local function store_text(rank, name)
  return whole((" @!%%p0 bra DONE;\n %s [%%rd10, %s], [%%r17];\n cp.async.bulk.commit_group;\n"
    .. " cp.async.bulk.wait_group 0;\nDONE:"):format(name, coordinates(rank)), "")
end

local bits = { u8 = 8, u16 = 16, u32 = 32, s32 = 32, u64 = 64, s64 = 64, f16 = 16, f32 = 32, f64 = 64, bf16 = 16,
  f32_ftz = 32,
  tf32 = 32, tf32_ftz = 32 }
local order = { "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32_ftz", "tf32", "tf32_ftz" }
local plain = { f32_ftz = "f32", tf32_ftz = "tf32" }
local span = { none = 64, ["32B"] = 32, ["64B"] = 64, ["128B"] = 128 }

-- A tensor and a box of `inner` bytes in the first dimension.
local function geometry(rank, dtype, inner, options)
  local size = bits[dtype] // 8
  local g = { rank = rank, size = size, dims = {}, strides = {}, box = {}, steps = {}, dtype = dtype }
  local boxes = ({ { 1 }, { 1, 11 }, { 1, 5, 3 }, { 1, 3, 2, 3 }, { 1, 2, 3, 2, 2 } })[rank]
  for i = 1, rank do
    g.box[i] = i == 1 and inner // size or boxes[i]
    g.dims[i] = i == 1 and g.box[1] * 2 + 16 // size or boxes[i] * 2 + 1
    g.steps[i] = 1
  end
  local pitch = (g.dims[1] * size + 47) // 16 * 16
  if options.interleave == "32B" then pitch = (pitch + 31) // 32 * 32 end
  for i = 2, rank do
    g.strides[i - 1] = pitch
    pitch = pitch * g.dims[i] + (options.interleave == "32B" and 32 or 16)
  end
  g.memory = pitch
  if options.interleave then
    -- the first dimension counts units of 16 or 32 bytes
    local unit = options.interleave == "16B" and 16 or 32
    g.memory = pitch * unit
  end
  return g
end

-- Where the box begins: inside, across the lower and the upper edges, and outside.  In the first dimension a box
-- begins at
-- a multiple of 16 bytes (32 with that interleaving), for the hardware takes no other.
local function places(g, unit)
  unit = (unit or 16) // g.size
  local list = { { "inside", {} }, { "across the upper edge", {} }, { "across the lower edge", {} }, { "beyond", {} },
    { "before", {} } }
  for i = 1, g.rank do
    list[1][2][i] = i == 1 and unit or 1
    list[2][2][i] = g.dims[i] - (g.box[i] + 1) // 2
    list[3][2][i] = -((g.box[i] + 1) // 2)
    list[4][2][i] = i == g.rank and g.dims[i] + 3 or 0
    list[5][2][i] = i == 1 and -g.box[1] - unit or 0
    if i == 1 then
      for _, place in ipairs(list) do place[2][1] = place[2][1] // unit * unit end
    end
  end
  return list
end

-- In an interleaved layout dimension 1 counts units of 16 or 32 bytes, and a box has one slice.
local function box_bytes(g)
  local unit = ({ ["16B"] = 16, ["32B"] = 32 })[g.interleave]
  local bytes = unit or g.size
  for i = 1, g.rank do
    local step = not unit and i == 1 and 1 or g.steps[i]
    if not unit or i ~= g.rank - 1 then bytes = bytes * ((g.box[i] + step - 1) // step) end
  end
  return bytes
end

local function case(g, options, title, family, text, place, store)
  local map = { dtype = g.dtype, dims = g.dims, strides = g.rank > 1 and g.strides or nil, box = g.box,
    swizzle = options.swizzle, interleave = options.interleave, oob = options.oob, element_strides = g.steps }
  local c = place[2]
  local type = plain[g.dtype] or g.dtype
  local tensor = operands.memory(type, g.memory, 1)
  local tile = operands.memory(type, TILE, 2)
  g.interleave = options.interleave or "none"
  local ctas = options.ctas or 1
  return {
    name = ("%s, %s"):format(title, place[1]), family = family, text = text, stride = g.size, grid = { ctas },
      block = { 128 },
    cluster = { ctas }, smem = TILE + 256, result = ({ f16 = "f16", bf16 = "bf16", f32 = "f32", f64 = "f64" })[type],
    args = {
      { map = map, of = 11 }, { input = tile }, store and { input = "\0\0\0\0" } or { output = ctas * TILE },
      c[1], c[2] or 0, c[3] or 0, c[4] or 0, c[5] or 0, box_bytes(g), options.place or 0,
      store and { output = g.memory, initial = tensor, hidden = true } or { input = tensor, hidden = true },
    },
  }
end

local function loads(add)
  for rank = 1, 5 do
    local text = load_text(rank, "shared::cluster")
    for _, dtype in ipairs(order) do
      for _, swizzle in ipairs { "none", "32B", "64B", "128B" } do
        local fills = dtype:match "f" and { "zeros", "nan" } or { "zeros" }
        for _, fill in ipairs(fills) do
          local options = { swizzle = swizzle, oob = fill }
          local g = geometry(rank, dtype, span[swizzle], options)
          local title = ("load %dd %s swizzle %s fill %s"):format(rank, dtype, swizzle, fill)
          for _, place in ipairs(places(g)) do
            add(case(g, options, title, ("load %dd %s"):format(rank, dtype), text, place))
          end
        end
      end
    end
  end
end

-- What only some tensors have: element strides, short rows under a swizzle, destinations off the atom.
local function special_loads(add)
  for rank = 1, 5 do
    local text = load_text(rank, "shared::cluster")
    for _, dtype in ipairs { "u8", "f16", "f32", "u64" } do
      for _, swizzle in ipairs { "none", "64B", "128B" } do
        for _, step in ipairs { 2, 3, 8 } do
          local options = { swizzle = swizzle }
          local g = geometry(rank, dtype, span[swizzle], options)
          for i = 2, rank do g.steps[i] = i % 2 == 0 and step or 1 end
          if rank == 1 then g.steps[1] = step end
          for _, place in ipairs(places(g)) do
            add(case(g, options, ("load %dd %s swizzle %s element stride %d"):format(rank, dtype, swizzle, step),
              "load element strides", text, place))
          end
        end
      end
      for _, short in ipairs { { "64B", 32 }, { "128B", 32 }, { "128B", 64 }, { "128B", 96 }, { "64B", 16 }, { "32B",
        16 } } do
        local options = { swizzle = short[1] }
        local g = geometry(rank, dtype, short[2], options)
        add(case(g, options, ("load %dd %s swizzle %s rows of %d bytes"):format(rank, dtype, short[1], short[2]),
          "load short rows", text, places(g)[1]))
      end
      for _, swizzle in ipairs { "none", "32B", "64B", "128B" } do
        for _, at in ipairs { 128, 256, 384, 1024, 1152 } do
          local options = { swizzle = swizzle, place = at }
          local g = geometry(rank, dtype, span[swizzle], options)
          add(case(g, options, ("load %dd %s swizzle %s to %d"):format(rank, dtype, swizzle, at), "load places", text,
            places(g)[2]))
        end
      end
      local options = { swizzle = "64B" }
      local g = geometry(rank, dtype, 64, options)
      add(case(g, options, ("load %dd %s into shared::cta"):format(rank, dtype), "load shared::cta",
        load_text(rank, "shared::cta"), places(g)[2]))
      for _, ctas in ipairs { 2, 4 } do
        options = { swizzle = "64B", ctas = ctas }
        add(case(g, options, ("load %dd %s multicast to %d"):format(rank, dtype, ctas), "load multicast",
          load_text(rank, "shared::cluster", (1 << ctas) - 1), places(g)[2]))
      end
    end
  end
end

-- The same without `.tile`, with a cache policy, and behind a prefetch.
local function spelled_loads(add)
  local policy = " createpolicy.fractional.L2::evict_first.b64 %rd14, 1.0;\n"
  for rank = 1, 5 do
    for _, space in ipairs { "shared::cluster", "shared::cta" } do
      for _, mask in ipairs(space == "shared::cluster" and { false, 3 } or { false }) do
        for _, mode in ipairs { "", ".tile" } do
          for _, hint in ipairs { false, true } do
            local text = load_text(rank, space, mask or nil):gsub("global%.tile", "global" .. mode)
            local at = ("[%%rd10, %s]"):format(coordinates(rank))
            if hint then
              text = text:gsub("(complete_tx::bytes[.:%w]*)(\n [^\n]*);", function(name, rest)
                return name .. ".L2::cache_hint" .. rest .. ", %rd14;"
              end, 1)
            end
            local prefetch = ("cp.async.bulk.prefetch.tensor.%dd.L2.global%s%s"):format(rank, mode,
              hint and ".L2::cache_hint" or "")
            local first = policy .. (" @%%p0 prefetch.tensormap [%%rd10];\n @%%p0 %s %s%s;\n"):format(prefetch, at,
              hint and ", %rd14" or "")
            local ctas = mask and 2 or 1
            text = text:gsub(" @%%p0 mbarrier%.arrive", function(found) return first .. found end, 1)
            local options = { swizzle = "128B", ctas = ctas }
            local g = geometry(rank, "f16", 128, options)
            for at_, place in ipairs(places(g)) do
              if at_ <= 2 then
                add(case(g, options, ("load %dd %s%s%s%s"):format(rank, space, mode, mask and " multicast" or "",
                  hint and " with a policy" or ""), "load spellings", text, place))
              end
            end
          end
        end
      end
    end
  end
end

local function spelled_stores(add)
  for rank = 1, 5 do
    for _, mode in ipairs { "", ".tile" } do
      for _, hint in ipairs { "", ".L2::cache_hint" } do
        local name = ("cp.async.bulk.tensor.%dd.global.shared::cta%s.bulk_group%s"):format(rank, mode, hint)
        local text = store_text(rank, name)
        if hint ~= "" then
          text = text:gsub("%[%%r17%];", "[%%r17], %%rd14;", 1):gsub(" @!%%p0 bra DONE;",
            " createpolicy.fractional.L2::evict_last.b64 %%rd14;\n%0", 1)
        end
        text = text:gsub("wait_group 0", "wait_group.read 0;\n cp.async.bulk.wait_group 0", 1)
        local options = { swizzle = "128B" }
        local g = geometry(rank, "f16", 128, options)
        for at, place in ipairs(places(g)) do
          if at <= 2 then add(case(g, options, name, "store spellings", text, place, true)) end
        end
      end
    end
  end
end

local function stores(add)
  for rank = 1, 5 do
    local text = store_text(rank, ("cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group"):format(rank))
    for _, dtype in ipairs(order) do
      for _, swizzle in ipairs { "none", "32B", "64B", "128B" } do
        local options = { swizzle = swizzle }
        local g = geometry(rank, dtype, span[swizzle], options)
        for _, place in ipairs(places(g)) do
          add(case(g, options, ("store %dd %s swizzle %s"):format(rank, dtype, swizzle),
            ("store %dd %s"):format(rank, dtype), text, place, true))
        end
      end
    end
    for _, dtype in ipairs { "u8", "f16", "f32" } do
      for _, step in ipairs { 2, 3 } do
        local options = { swizzle = "64B" }
        local g = geometry(rank, dtype, 64, options)
        for i = 2, rank do g.steps[i] = step end
        add(case(g, options, ("store %dd %s element stride %d"):format(rank, dtype, step), "store element strides",
          text,
          places(g)[1], true))
      end
    end
  end
end

local function reductions(add)
  local types = {
    add = { "u32", "s32", "u64", "f32", "f16", "bf16", "f32_ftz" }, min = { "u32", "s32", "u64", "s64", "f16", "bf16" },
    max = { "u32", "s32", "u64", "s64", "f16", "bf16" }, inc = { "u32" }, dec = { "u32" }, ["and"] = { "u32", "u64",
      "s32" },
    ["or"] = { "u32", "u64", "s64" }, xor = { "u32", "u64" },
  }
  for _, operation in ipairs { "add", "min", "max", "inc", "dec", "and", "or", "xor" } do
    for rank = 1, 5 do
      local text = store_text(rank, ("cp.reduce.async.bulk.tensor.%dd.global.shared::cta.%s.tile.bulk_group")
        :format(rank, operation))
      for _, dtype in ipairs(types[operation]) do
        local swizzle = ({ "none", "32B", "64B", "128B", "128B" })[rank]
        local options = { swizzle = swizzle }
        local g = geometry(rank, dtype, span[swizzle], options)
        for _, place in ipairs(places(g)) do
          add(case(g, options, ("reduce %s %dd %s"):format(operation, rank, dtype), ("reduce %s"):format(operation),
            text, place,
            true))
        end
      end
    end
  end
end

-- tensormap.replace: the map of the launch, with one field changed in shared memory, in global memory.
local function replacements(add)
  local base = { swizzle = "64B" }
  local fields = {
    { "global_address", "b64", " cvta.to.global.u64 %rd12, %rd1; add.u64 %rd12, %rd12, 4096;", "%rd12" },
    { "box_dim", "b32", " mov.u32 %r30, 4;", "1, %r30", 4 * 3 * 64 }, { "global_dim", "b32", " mov.u32 %r30, 3;",
      "1, %r30" },
    { "global_stride", "b64", " mov.u64 %rd12, 64;", "0, %rd12" }, { "element_stride", "b32", " mov.u32 %r30, 2;",
      "1, %r30",
      3 * 3 * 64 }, { "swizzle_mode", "b32", "", "0" }, { "swizzle_mode", "b32", "", "3" },
    { "fill_mode", "b32", "", "1" }, { "elemtype", "b32", "", "10" },
  }
  for _, field in ipairs(fields) do
    local name = ("tensormap.replace.tile.%s.shared::cta.b1024.%s"):format(field[1], field[2])
    local text = whole(([[
 add.u32 %%r31, %%r2, %d; add.u64 %%rd11, %%rd1, %d; setp.lt.u32 %%p5, %%r1, 32;
 @!%%p5 bra READY;
 mul.wide.u32 %%rd13, %%r1, 4; add.u64 %%rd13, %%rd10, %%rd13; ld.b32 %%r32, [%%rd13]; mad.lo.u32 %%r33, %%r1, 4, %%r31;
 st.shared.b32 [%%r33], %%r32;
 bar.warp.sync 0xffffffff;
%s
 @%%p0 %s [%%r31], %s;
 bar.warp.sync 0xffffffff;
 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%%rd11], [%%r31], 128;
READY:
 bar.sync 0;
 fence.proxy.tensormap::generic.acquire.gpu [%%rd11], 128;
 @%%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%%r3], %%r15;
 @%%p0 cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%%r17], [%%rd11, %s], [%%r3];
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%p3, [%%r3], 0;
 @!%%p3 bra WAIT;]]):format(TILE + 128, TILE, field[3], name, field[4], coordinates(3)), dump)
    for _, at in ipairs { 2, 3 } do
      local g = geometry(3, "f16", 64, base)
      local c = case(g, base, ("%s %s"):format(name, field[4]), "tensormap.replace", text, places(g)[at])
      c.args[9] = field[5] or c.args[9]
      c.args[2].input = c.args[2].input .. ("\0"):rep(256)
      add(c)
    end
  end
end

-- The same in a copy of the map in global memory, and the fields that the others leave alone.
local function replacements_in_place(add)
  local base = { swizzle = "64B" }
  local fields = {
    { "global_address", "b64", " cvta.to.global.u64 %rd12, %rd1; add.u64 %rd12, %rd12, 4096;", "%rd12" },
    { "rank", "b32", "", "2" }, { "rank", "b32", " mov.u32 %r30, 2;", "%r30" }, { "interleave_layout", "b32", "", "0" },
    { "box_dim", "b32", " mov.u32 %r30, 4;", "1, %r30", 4 * 3 * 64 }, { "global_dim", "b32", " mov.u32 %r30, 3;",
      "1, %r30" }, { "global_stride", "b64", " mov.u64 %rd12, 64;", "0, %rd12" },
    { "element_stride", "b32", " mov.u32 %r30, 2;", "1, %r30", 3 * 3 * 64 }, { "swizzle_mode", "b32", "", "0" },
    { "swizzle_mode", "b32", "", "1", nil, 32 }, { "swizzle_mode", "b32", "", "3" }, { "fill_mode", "b32", "", "1" },
    { "elemtype", "b32", "", "10" },
  }
  for _, field in ipairs(fields) do
    local name = ("tensormap.replace.tile.%s.global.b1024.%s"):format(field[1], field[2])
    local text = whole(([[
 add.u64 %%rd11, %%rd1, %d; cvta.to.global.u64 %%rd11, %%rd11; setp.lt.u32 %%p5, %%r1, 32;
 @!%%p5 bra READY;
 mul.wide.u32 %%rd13, %%r1, 4; add.u64 %%rd14, %%rd10, %%rd13; ld.b32 %%r32, [%%rd14]; add.u64 %%rd14, %%rd11, %%rd13;
 st.global.b32 [%%rd14], %%r32;
 bar.warp.sync 0xffffffff;
%s
 @%%p0 %s [%%rd11], %s;
 @%%p0 fence.proxy.tensormap::generic.release.gpu;
 bar.warp.sync 0xffffffff;
READY:
 bar.sync 0;
 fence.proxy.tensormap::generic.acquire.gpu [%%rd11], 128;
 @%%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%%r3], %%r15;
 @%%p0 cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%%r17], [%%rd11, %s], [%%r3];
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%p3, [%%r3], 0;
 @!%%p3 bra WAIT;]]):format(TILE, field[3], name, field[4], coordinates(3)), dump)
    for _, at in ipairs { 2, 3 } do
      local g = geometry(3, "f16", field[6] or 64, base)
      local c = case(g, base, ("%s %s"):format(name, field[4]), "tensormap.replace in place", text, places(g)[at])
      c.args[9] = field[5] or c.args[9]
      c.args[2].input = c.args[2].input .. ("\0"):rep(256)
      add(c)
    end
  end
end

local function interleaved(add)
  for rank = 3, 5 do
    local load = load_text(rank, "shared::cluster")
    local store = store_text(rank, ("cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group"):format(rank))
    for _, dtype in ipairs { "u8", "f16", "f32", "u64" } do
      for _, layout in ipairs { { "16B", "none" }, { "16B", "32B" }, { "32B", "32B" } } do
        local interleave, swizzle = table.unpack(layout)
        local unit = interleave == "16B" and 16 or 32
        for _, oob in ipairs(dtype:match "^f" and { "zeros", "nan" } or { "zeros" }) do
          local options = { swizzle = swizzle, interleave = interleave, oob = oob }
          local g = geometry(rank, dtype, unit, options)
          for _, place in ipairs(places(g, unit)) do
            add(case(g, options, ("load %dd %s interleave %s swizzle %s fill %s"):format(rank, dtype, interleave,
              swizzle, oob),
              ("load %s"):format(interleave), load, place))
          end
        end
        local options = { swizzle = swizzle, interleave = interleave }
        local g = geometry(rank, dtype, unit, options)
        for _, place in ipairs(places(g, unit)) do
          add(case(g, options, ("store %dd %s interleave %s swizzle %s"):format(rank, dtype, interleave, swizzle),
            ("store %s"):format(interleave), store, place, true))
        end
      end
    end
  end
end

-- Where a box may begin: each of these may trap or never end, so that each has a process of its own.
local function edges(add)
  local function probe(title, rank, dtype, options, coordinates_, store)
    local g = geometry(rank, dtype, span[options.swizzle], options)
    local text = store
      and store_text(rank, ("cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group"):format(rank))
      or load_text(rank, "shared::cluster")
    local place = { title, type(coordinates_) == "function" and coordinates_(g) or coordinates_ }
    for i = 1, rank do place[2][i] = place[2][i] or 0 end
    add(case(g, options, ("%s %dd %s"):format(store and "store" or "load", rank, dtype), "edge", text, place, store))
  end
  local none = { swizzle = "none" }
  probe("from byte 1", 1, "u8", none, { 1 })
  probe("from byte 2", 2, "f16", none, { 1 })
  probe("from byte 8", 2, "f32", none, { 2 })
  probe("beyond", 1, "u8", none, function(g) return { g.dims[1] + 16 } end)
  probe("before", 1, "u8", none, function(g) return { -g.box[1] - 16 } end)
  probe("from byte 2", 2, "f16", none, { 1 }, true)
  probe("beyond", 1, "u8", none, function(g) return { g.dims[1] + 16 } end, true)
  probe("before", 1, "u8", none, function(g) return { -g.box[1] - 16 } end, true)
  probe("from byte 8 before", 2, "f16", none, { -4 })
end

-- For other kernels with a tensor map: the frame around what is issued, the text that dumps shared memory, names of the
-- coordinates; TILE is the shared memory in bytes.
local M = { TILE = TILE, whole = whole, dump = dump, coordinates = coordinates, bits = bits, plain = plain, span = span,
  load_text = load_text, store_text = store_text }

function M.tensor()
  local cases = {}
  local function add(c)
    -- a tensor of one dimension wholly outside is among the edges; what is stored cannot begin before the tensor
    local flat = #c.args[1].map.dims == 1 and (c.name:match ", beyond$" or c.name:match ", before$")
    local before = not c.name:match "^load" and not c.name:match "^tensormap"
      and (c.name:match ", before$" or c.name:match ", across the lower edge$")
    if not flat and not before then cases[#cases + 1] = c end
  end
  loads(add)
  special_loads(add)
  stores(add)
  reductions(add)
  replacements(add)
  spelled_loads(add)
  spelled_stores(add)
  replacements_in_place(add)
  return cases
end

function M.interleave()
  local cases = {}
  interleaved(function(c) cases[#cases + 1] = c end)
  return cases
end

function M.edge()
  local cases = {}
  edges(function(c) cases[#cases + 1] = c end)
  return cases
end

return M
