-- Copies of pixels (im2col): loads, stores and reductions over ranks, types, swizzles, corners, traversal strides,
-- offsets and fills.
local operands = require "spec.device.operands"
local tensor = require "spec.device.tensor"

local TILE = tensor.TILE

local tail = ".mbarrier::complete_tx::bytes"

-- The offsets stand in the text.
local function load_text(rank, offsets, spelling)
  local names, moves = {}, {}
  for i, offset in ipairs(offsets) do
    names[i] = "%h" .. i
    moves[i] = (" mov.u16 %%h%d, %d;"):format(i, offset)
  end
  local list = "{" .. table.concat(names, ", ") .. "}"
  local prefetch = spelling.prefetch
    and (" @%%p0 cp.async.bulk.prefetch.tensor.%dd.L2.global.im2col [%%rd10, %s], %s;\n")
    :format(rank, tensor.coordinates(rank), list) or ""
  local last = (spelling.multicast and ", %h7" or "") .. (spelling.hint and ", %rd14" or "")
  return tensor.whole(table.concat(moves) .. "\n" .. prefetch .. [[
 mov.u16 %h7, 3; createpolicy.fractional.L2::evict_first.b64 %rd14, 1.0;
 @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], %r15;
 barrier.cluster.arrive; barrier.cluster.wait;
 mov.u32 %r30, %cluster_ctarank; setp.eq.u32 %p4, %r30, 0; and.pred %p4, %p4, %p0;
]] .. (" @%%p%d cp.async.bulk.tensor.%dd.%s.global.im2col%s%s%s\n [%%r17], [%%rd10, %s], [%%r3], %s%s;\n"):format(
    spelling.multicast and 4 or 0, rank, spelling.space or "shared::cluster", tail,
    spelling.multicast and ".multicast::cluster" or "", spelling.hint and ".L2::cache_hint" or "",
    tensor.coordinates(rank), list, last) .. [[
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0;
 @!%p3 bra WAIT;]], tensor.dump)
end

-- Sizes of W, H, D and N; corners, traversal strides and offsets of a filter.
local spatial = { { 13 }, { 9, 7 }, { 6, 5, 4 } }
local filters = {
  { lower = { 0, 0, 0 }, upper = { 0, 0, 0 }, stride = { 1, 1, 1 }, offsets = { 0, 0, 0 } },
  { lower = { -1, -1, -1 }, upper = { -1, -1, -1 }, stride = { 1, 1, 1 }, offsets = { 2, 0, 1 } },
  { lower = { -2, -1, 0 }, upper = { 0, -1, -1 }, stride = { 2, 1, 2 }, offsets = { 1, 2, 1 } },
  { lower = { 1, 0, -1 }, upper = { -2, -1, 0 }, stride = { 3, 2, 1 }, offsets = { 0, 1, 0 } },
}

local function geometry(rank, dtype, channels)
  local size = tensor.bits[dtype] // 8
  local g = { rank = rank, dtype = dtype, size = size, dims = { channels + 48 // size }, strides = {} }
  for i, extent in ipairs(spatial[rank - 2]) do g.dims[i + 1] = extent end
  g.dims[rank] = 3
  local pitch = (g.dims[1] * size + 31) // 16 * 16
  for i = 2, rank do
    g.strides[i - 1] = pitch
    pitch = pitch * g.dims[i] + 16
  end
  g.memory = pitch
  return g
end

-- Positions of the first pixel, in steps from the lower corners.
local function starts(g, filter)
  local list = {}
  local function start(title, channel, steps, image)
    local at = { channel }
    for i = 1, g.rank - 2 do at[i + 1] = filter.lower[i] + steps * filter.stride[i] end
    at[g.rank] = image
    list[#list + 1] = { title, at }
  end
  start("first", 0, 0, 0)
  start("inside", 16 // g.size, 1, 1)
  start("last image", 48 // g.size, 1, 2)
  return list
end

local function case(g, o)
  local steps, width = { 1 }, o.interleave and 0 or 1
  for i = 2, g.rank do steps[i] = 1 end
  for i = 1, g.rank - 2 do steps[width + i] = o.filter.stride[i] end
  local map = { dtype = g.dtype, dims = g.dims, strides = g.strides, element_strides = steps, swizzle = o.swizzle,
    interleave = o.interleave, oob = o.fill, im2col = { lower = table.move(o.filter.lower, 1, g.rank - 2, 1, {}),
      upper = table.move(o.filter.upper, 1, g.rank - 2, 1, {}), channels = o.channels, pixels = o.pixels } }
  local type = tensor.plain[g.dtype] or g.dtype
  local bytes = operands.memory(type, g.memory, 1)
  local c, ctas = o.start[2], o.ctas or 1
  return { name = ("%s, %s"):format(o.title, o.start[1]), family = o.family, text = o.text, stride = g.size,
    grid = { ctas }, block = { 128 }, cluster = { ctas }, smem = TILE + 256,
    result = ({ f16 = "f16", bf16 = "bf16", f32 = "f32" })[type],
    args = {
      { map = map, of = 11 }, { input = operands.memory(type, TILE, 2) },
      o.store and { input = "\0\0\0\0" } or { output = ctas * TILE }, c[1], c[2], c[3], c[4] or 0, c[5] or 0,
      o.channels * o.pixels * g.size, 0,
      o.store and { output = g.memory, initial = bytes, hidden = true } or { input = bytes, hidden = true },
    } }
end

local function offsets_of(rank, filter) return table.move(filter.offsets, 1, rank - 2, 1, {}) end

local function loads(add)
  for rank = 3, 5 do
    for number, filter in ipairs(filters) do
      local text = load_text(rank, offsets_of(rank, filter), {})
      for _, dtype in ipairs { "u8", "f16", "f32", "tf32", "u64" } do
        for _, swizzle in ipairs { "none", "32B", "64B", "128B" } do
          local channels = tensor.span[swizzle] * 8 // tensor.bits[dtype]
          local g = geometry(rank, dtype, channels)
          for _, fill in ipairs(dtype:match "f" and { "zeros", "nan" } or { "zeros" }) do
            for i, start in ipairs(starts(g, filter)) do
              add(case(g, { text = text, filter = filter, swizzle = swizzle, fill = fill, channels = channels,
                pixels = ({ 70, 33, 128 })[i], start = start, family = ("load %dd"):format(rank),
                title = ("load %dd %s swizzle %s fill %s filter %d"):format(rank, dtype, swizzle, fill, number) }))
            end
          end
        end
      end
    end
  end
end

local function spellings(add)
  for rank = 3, 5 do
    local filter = filters[2]
    for _, spelling in ipairs {
      { title = "behind a prefetch", prefetch = true }, { title = "to shared::cta", space = "shared::cta" },
      { title = "multicast", multicast = true }, { title = "with a policy", hint = true },
      { title = "multicast with a policy", multicast = true, hint = true },
    } do
      local g = geometry(rank, "f16", 32)
      for _, start in ipairs(starts(g, filter)) do
        add(case(g, { text = load_text(rank, offsets_of(rank, filter), spelling), filter = filter, swizzle = "64B",
          fill = "zeros", channels = 32, pixels = 40, start = start, family = "load spellings",
          ctas = spelling.multicast and 2 or 1, title = ("load %dd %s"):format(rank, spelling.title) }))
      end
    end
  end
end

-- A pixel of an interleaved layout is a slice of 16 or 32 bytes of its channels, at its coordinate.
local function interleaved(add)
  for rank = 3, 5 do
    -- the last filter's second position lies behind the narrowest images
    for number, filter in ipairs(table.move(filters, 1, rank == 5 and 3 or 4, 1, {})) do
      for _, layout in ipairs { { "16B", "none" }, { "16B", "32B" }, { "32B", "32B" } } do
        local unit = layout[1] == "16B" and 16 or 32
        for _, store in ipairs(number == 1 and { false, true } or { false }) do
          local text = store
            and tensor.store_text(rank, ("cp.async.bulk.tensor.%dd.global.shared::cta.im2col_no_offs.bulk_group")
              :format(rank)) or load_text(rank, offsets_of(rank, filter), {})
          for _, dtype in ipairs { "u8", "f16", "f32" } do
            local g = geometry(rank, dtype, 0)
            -- the width first, then height and depth, slices and images
            g.dims = table.move(spatial[rank - 2], 1, rank - 2, 1, {})
            g.dims[rank - 1], g.dims[rank] = 4, 3
            local pitch = g.dims[1] * unit + 32
            for i = 2, rank do
              g.strides[i - 1] = pitch
              pitch = pitch * g.dims[i] + 32
            end
            g.memory = pitch
            for _, fill in ipairs(dtype:match "f" and not store and { "zeros", "nan" } or { "zeros" }) do
              for i, start in ipairs(starts(g, filter)) do
                local at = start[2]
                table.remove(at, 1)
                table.insert(at, rank - 1, i)
                if not store or i < 3 then
                  add(case(g, { text = text, filter = filter, swizzle = layout[2], interleave = layout[1], fill = fill,
                    channels = unit // g.size, pixels = ({ 70, 33, 128 })[i], start = start, store = store,
                    family = ("interleaved %s"):format(store and "store" or "load"),
                    title = ("%s %dd %s interleave %s swizzle %s fill %s filter %d"):format(store and "store" or "load",
                      rank, dtype, layout[1], layout[2], fill, number) }))
                end
              end
            end
          end
        end
      end
    end
  end
end

-- What is stored begins inside the tensor and has no offsets; it may go on in the next row and image.
local function stores(add)
  local inside = { lower = { 0, 0, 0 }, upper = { 0, 0, 0 }, stride = { 1, 1, 1 } }
  local narrow = { lower = { 1, 0, 1 }, upper = { -1, -1, 0 }, stride = { 1, 2, 1 } }
  local reductions = { { "add", { "u32", "s32", "u64", "f16", "bf16" } }, { "min", { "s32", "f16", "s64" } },
    { "max", { "u32", "bf16" } }, { "inc", { "u32" } }, { "dec", { "u32" } }, { "and", { "u32", "u64" } },
    { "or", { "u32" } }, { "xor", { "u64" } } }
  for rank = 3, 5 do
    local function all(name, dtype, swizzle, family)
      local text = tensor.store_text(rank, name)
      local channels = tensor.span[swizzle] * 8 // tensor.bits[dtype]
      local g = geometry(rank, dtype, channels)
      for number, filter in ipairs { inside, narrow } do
        for i, start in ipairs(starts(g, filter)) do
          if i < 3 then
            add(case(g, { text = text, filter = filter, swizzle = swizzle, channels = channels, pixels = 15,
              start = start, family = family, store = true,
              title = ("%s %s swizzle %s filter %d"):format(name, dtype, swizzle, number) }))
          end
        end
      end
    end
    for _, dtype in ipairs { "u8", "f16", "f32", "u64" } do
      for _, swizzle in ipairs { "none", "32B", "64B", "128B" } do
        all(("cp.async.bulk.tensor.%dd.global.shared::cta.im2col_no_offs.bulk_group"):format(rank), dtype, swizzle,
          "store")
      end
    end
    for _, reduction in ipairs(reductions) do
      for _, dtype in ipairs(reduction[2]) do
        all(("cp.reduce.async.bulk.tensor.%dd.global.shared::cta.%s.im2col_no_offs.bulk_group"):format(rank,
          reduction[1]), dtype, "64B", "reduce")
      end
    end
  end
end

return function()
  local cases = {}
  local function add(c) cases[#cases + 1] = c end
  loads(add)
  stores(add)
  spellings(add)
  interleaved(add)
  return cases
end
