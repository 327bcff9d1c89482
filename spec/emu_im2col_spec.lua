-- Tensor copies of pixels: each element is the one that the index arithmetic of a convolution names.
local tc = require "tcmma"

local DEVICE = os.getenv "TCMMA_DEVICE" or "cuda:0"

local head = [[
.version 8.6
.target %s
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 array)
{
 .reg .b64 %%rd<8>; .reg .b32 %%r<16>; .reg .b16 %%h<4>; .reg .pred %%p<4>;
 mov.u32 %%r0, %%tid.x; setp.eq.u32 %%p0, %%r0, 0;
 mov.u32 %%r1, tile; add.u32 %%r2, %%r1, 65536;
 ld.param.u64 %%rd1, [array]; cvta.to.global.u64 %%rd1, %%rd1;
 mov.b64 %%rd0, map; cvta.param.u64 %%rd0, %%rd0;
]]

-- One copy of `bytes`, tiled where it has no offsets; the shared memory it fills goes to `array`.
local function load_text(o)
  local names, offsets, lines = {}, {}, {}
  for i, value in ipairs(o.at) do
    names[i] = "%r" .. 4 + i
    lines[#lines + 1] = (" mov.b32 %s, %d;"):format(names[i], value)
  end
  for i, value in ipairs(o.offsets or {}) do
    offsets[i] = "%h" .. i - 1
    lines[#lines + 1] = (" mov.b16 %s, %d;"):format(offsets[i], value)
  end
  local last = o.offsets and ", {" .. table.concat(offsets, ",") .. "}" or ""
  return head:format(o.target or "sm_90a") .. table.concat(lines, "\n") .. ([[

 @!%%p0 bra copied;
 mbarrier.init.shared::cta.b64 [%%r2], 1;
 fence.mbarrier_init.release.cluster;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%%r2], %d;
 cp.async.bulk.prefetch.tensor.%dd.L2.global.%s [%%rd0, {%s}]%s;
 cp.async.bulk.tensor.%dd.shared::cluster.global.%s.mbarrier::complete_tx::bytes [%%r1], [%%rd0, {%s}], [%%r2]%s;
wait:
 mbarrier.try_wait.parity.shared::cta.b64 %%p1, [%%r2], 0;
 @!%%p1 bra wait;
copied:
 bar.sync 0;
 mov.u32 %%r3, %%r0;
dump:
 setp.ge.u32 %%p1, %%r3, %d;
 @%%p1 bra end;
 mad.lo.u32 %%r4, %%r3, 4, %%r1;
 ld.shared.u32 %%r15, [%%r4];
 mad.wide.u32 %%rd2, %%r3, 4, %%rd1;
 st.global.u32 [%%rd2], %%r15;
 add.u32 %%r3, %%r3, 32;
 bra dump;
end:
 ret;
}]]):format(o.bytes, #o.at, o.mode, table.concat(names, ","), last, #o.at, o.mode,
    table.concat(names, ","), last, o.bytes // 4)
end

-- 0, 1, 2 ... words from `array` to shared memory and from there to the map.
local function store_text(o)
  return head:format "sm_90a" .. ([[
 mov.u32 %%r3, %%r0;
fill:
 mad.lo.u32 %%r4, %%r3, 4, %%r1;
 add.u32 %%r15, %%r3, 1;
 st.shared.u32 [%%r4], %%r15;
 add.u32 %%r3, %%r3, 32;
 setp.lt.u32 %%p1, %%r3, %d;
 @%%p1 bra fill;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @!%%p0 bra end;
 %s [%%rd0, {%s}], [%%r1];
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
end:
 ret;
}]]):format(o.words, o.operation, table.concat(o.at, ","))
end

local function run(text, map, array, target)
  local kernel = tc.ptx(text):kernel "k"
  local options = { block = { 32 }, smem = 65536 + 64, args = { map, array } }
  if tostring(array.device):match "cuda" then
    kernel:launch(options)
    return
  end
  for _, mode in ipairs { "fast", "check", "random" } do
    options.mode, options.target = mode, target
    local report = kernel:emulate(options)
    assert.is_true(report.completed, report:text())
  end
end

-- Where element (i3, i2, i1, i0), i0 innermost, of a tensor with these sizes lies; nil outside.
local function index(sizes, at)
  local result = 0
  for d = #sizes, 1, -1 do
    if at[d] < 0 or at[d] >= sizes[d] then return nil end
    result = result * sizes[d] + at[d]
  end
  return result
end

-- Pixel number i behind the pixel `first` ({q, p ..., n}, counted in steps), as output positions of a convolution.
local function pixel(counts, first, i)
  local linear, radix = i, 1
  for d = 1, #counts do
    linear, radix = linear + first[d] * radix, radix * counts[d]
  end
  local out = {}
  for d = 1, #counts do out[d], linear = linear % counts[d], linear // counts[d] end
  out[#counts + 1] = linear + first[#counts + 1]
  return out
end

-- sizes: {C, W, H ..., N}; lower, upper, stride, offsets per spatial dimension; channels from `channel` on.
local function expected(o)
  local spatial, counts = #o.sizes - 2, {}
  for d = 1, spatial do
    counts[d] = (o.sizes[d + 1] - 1 + o.upper[d] - o.lower[d]) // o.stride[d] + 1
  end
  local values = {}
  for i = 0, o.pixels - 1 do
    local position = pixel(counts, o.first, i)
    for c = 0, o.channels - 1 do
      local at = { o.channel + c }
      for d = 1, spatial do at[d + 1] = o.lower[d] + position[d] * o.stride[d] + o.offsets[d] end
      at[spatial + 2] = position[spatial + 1]
      local place = index(o.sizes, at)
      values[#values + 1] = place and place + 1 or 0
    end
  end
  return values
end

local function steps(o)
  local list = { 1 }
  for d = 1, #o.sizes - 2 do list[d + 1] = o.stride[d] end
  list[#o.sizes] = 1
  return list
end

local function start(o)
  local at = { o.channel }
  for d = 1, #o.sizes - 2 do at[d + 1] = o.lower[d] + o.first[d] * o.stride[d] end
  at[#o.sizes] = o.first[#o.sizes - 1]
  return at
end

local function ramp(sizes, device)
  local count = 1
  for _, size in ipairs(sizes) do count = count * size end
  local values, shape = {}, {}
  for i = 1, count do values[i] = i end
  for d = 1, #sizes do shape[d] = sizes[#sizes + 1 - d] end
  local array = tc.from_table(values, tc.i32):reshape(shape)
  if not device then return array end
  local there = tc.zeros(shape, tc.i32, { device = device })
  there:copy_from(array)
  return there
end

local cases = {
  ["1-D, padded"] = { sizes = { 8, 11, 3 }, lower = { -2 }, upper = { 0 }, stride = { 1 }, offsets = { 1 },
    first = { 4, 0 }, channel = 0, channels = 8, pixels = 24 },
  ["3x3, padded, the corner of the filter"] = { sizes = { 16, 9, 7, 2 }, lower = { -1, -1 }, upper = { -1, -1 },
    stride = { 1, 1 }, offsets = { 2, 0 }, first = { 3, 2, 0 }, channel = 4, channels = 16, pixels = 70 },
  ["3x3 with stride 2 and channels beyond the last"] = { sizes = { 12, 13, 9, 2 }, lower = { -1, -1 },
    upper = { -1, -1 }, stride = { 2, 2 }, offsets = { 1, 2 }, first = { 1, 0, 0 }, channel = 8, channels = 8,
      pixels = 33 },
  ["3-D, images beyond the last"] = { sizes = { 4, 6, 5, 4, 2 }, lower = { -1, 0, -1 }, upper = { -1, -2, 0 },
    stride = { 1, 2, 1 }, offsets = { 2, 1, 0 }, first = { 2, 1, 2, 1 }, channel = 0, channels = 4, pixels = 50 },
}

local function check_load(o, device)
  local array = ramp(o.sizes, device)
  local bytes = 4 * o.channels * o.pixels
  local out = tc.zeros({ o.channels * o.pixels }, tc.i32, device and { device = device })
  local map = tc.tensormap(array, { dims = o.sizes, element_strides = steps(o),
    im2col = { lower = o.lower, upper = o.upper, channels = o.channels, pixels = o.pixels } })
  run(load_text { bytes = bytes, at = start(o), offsets = o.offsets, mode = "im2col" }, map, out)
  assert.same(expected(o), out:totable())
end

local function check_store(device)
  local sizes = { 8, 5, 4, 2 }
  local array = tc.full({ 2, 4, 5, 8 }, 1000, tc.i32, device and { device = device })
  local map = tc.tensormap(array, { dims = sizes,
    im2col = { lower = { 0, 0 }, upper = { 0, 0 }, channels = 8, pixels = 12 } })
  local text = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group"
  run(store_text { words = 96, operation = text, at = { 0, 3, 2, 0 } }, map, array)
  local want = {}
  for i = 1, 320 do want[i] = 1000 end
  -- Twelve pixels from (w 3, h 2) on: the rest of the image, then the next.
  for p = 0, 11 do
    for c = 0, 7 do want[(2 * 5 + 3 + p) * 8 + c + 1] = 8 * p + c + 1 end
  end
  assert.same(want, array:reshape({ 320 }):totable())
  run(store_text { words = 96, at = { 0, 3, 2, 0 },
    operation = "cp.reduce.async.bulk.tensor.4d.global.shared::cta.min.im2col_no_offs.bulk_group" }, map, array)
  assert.same(want, array:reshape({ 320 }):totable())
end

describe("a copy of pixels", function()
  for name, case in pairs(cases) do
    it("loads: " .. name, function() check_load(case) end)
  end

  it("stores and reduces from pixel to pixel", function() check_store() end)

  it("along the width stays in its row of each image, and a halo follows", function()
    local sizes = { 4, 9, 3, 4 }
    local array = ramp(sizes)
    local out = tc.zeros({ 4 * 14 }, tc.i32)
    local map = tc.tensormap(array, { dims = sizes,
      im2col = { lower = { -1 }, upper = { 0 }, channels = 4, pixels = 12, mode = "w" } })
    run(load_text { target = "sm_100a", bytes = 4 * 4 * 14, at = { 0, 3, 2, 1 }, offsets = { 2, 1 },
      mode = "im2col::w" },
      map, out, "sm_100a")
    local want = {}
    local function add(w, n)
      for c = 0, 3 do
        local place = index(sizes, { c, w, 2, n })
        want[#want + 1] = place and place + 1 or 0
      end
    end
    for w = 3, 8 do add(w + 1, 1) end -- the position runs from -1 to 8, the offset adds 1
    for w = -1, 4 do add(w + 1, 2) end
    for w = 5, 6 do add(w + 1, 2) end
    assert.same(want, out:totable())
  end)

  it("of 128 pixels along the width has a halo behind each 32", function()
    local sizes = { 4, 9, 2, 20 }
    local array = ramp(sizes)
    local out = tc.zeros({ 4 * 132 }, tc.i32)
    local map = tc.tensormap(array, { dims = sizes,
      im2col = { lower = { 0 }, upper = { -1 }, channels = 4, mode = "w128" } })
    run(load_text { target = "sm_100a", bytes = 4 * 4 * 132, at = { 0, 0, 1, 0 }, offsets = { 1, 0 },
      mode = "im2col::w::128" }, map, out, "sm_100a")
    local want = {}
    local function add(w, n)
      for c = 0, 3 do
        local place = index(sizes, { c, w, 1, n })
        want[#want + 1] = place and place + 1 or 0
      end
    end
    for i = 0, 127 do -- eight positions a row
      add(i % 8, i // 8)
      if i % 32 == 31 then add(i % 8 + 1, i // 8) end
    end
    assert.same(want, out:totable())
  end)

  it("goes to several CTAs at once", function()
    local o = cases["3x3, padded, the corner of the filter"]
    local bytes = 4 * o.channels * o.pixels
    local text = load_text { bytes = bytes, at = start(o), offsets = o.offsets, mode = "im2col" }
    -- Each CTA expects the pixels, the first one asks for them; each writes what it got.
    text = text:gsub("(%%r2%], %d+;\n) (cp%.async%.bulk%.prefetch[^;]*;)\n (cp%.async%.bulk%.tensor[^;]*);",
      function(expect, _, copy)
        return expect .. " barrier.cluster.arrive; barrier.cluster.wait;\n mov.u32 %r14, %cluster_ctarank;\n"
          .. " setp.eq.u32 %p2, %r14, 0; mov.b16 %h3, 3;\n @%p2 "
          .. copy:gsub("complete_tx::bytes", "complete_tx::bytes.multicast::cluster") .. ", %h3;"
      end)
    text = text:gsub("copied:", (" bra joined;\ncopied:\n barrier.cluster.arrive; barrier.cluster.wait;\njoined:"
      .. " mov.u32 %%%%r14, %%%%cluster_ctarank; mad.wide.u32 %%%%rd1, %%%%r14, %d, %%%%rd1;"):format(bytes))
    local array, out = ramp(o.sizes), tc.zeros({ 2, o.channels * o.pixels }, tc.i32)
    local map = tc.tensormap(array, { dims = o.sizes, element_strides = steps(o),
      im2col = { lower = o.lower, upper = o.upper, channels = o.channels, pixels = o.pixels } })
    local report = tc.ptx(text):kernel("k"):emulate { grid = { 2 }, cluster = { 2 }, block = { 32 }, smem = 65600,
      mode = "check", args = { map, out } }
    assert.is_true(report.completed, report:text())
    local rows = out:totable()
    assert.same(expected(o), rows[1])
    assert.same(expected(o), rows[2])
  end)

  it("is refused where map and instruction differ, and where an offset is too large", function()
    local o = cases["1-D, padded"]
    local array, out = ramp(o.sizes), tc.zeros({ 8 * 24 }, tc.i32)
    local function fault(map, offsets)
      return tc.ptx(load_text { bytes = 768, at = { 0, 0, 0 }, offsets = offsets, mode = "im2col" }):kernel "k"
        :emulate { block = { 32 }, smem = 65600, args = { map, out } }
    end
    local report = fault(tc.tensormap(array, { dims = o.sizes, box = { 8, 4, 1 } }), { 0 })
    assert.matches("the instruction is .im2col, the tensor map .tile", report:text(), 1, true)
    local wide = tc.tensormap(ramp { 8, 5, 4, 2 }, { dims = { 8, 5, 4, 2 },
      im2col = { lower = { 0, 0 }, upper = { 0, 0 }, channels = 8, pixels = 24 } })
    report = tc.ptx(load_text { bytes = 768, at = { 0, 0, 0, 0 }, offsets = { 0, 256 }, mode = "im2col" }):kernel "k"
      :emulate { block = { 32 }, smem = 65600, args = { wide, out } }
    assert.matches("im2col offset 1 is 256; for rank 4 it has 8 bits", report:text(), 1, true)
    report = tc.ptx(load_text { bytes = 768, at = { 0, 5, 0, 0 }, offsets = { 0, 0 }, mode = "im2col" }):kernel "k"
      :emulate { block = { 32 }, smem = 65600, args = { wide, out } }
    assert.matches("coordinate 1 is 5, outside the box of pixels, which has 0..4", report:text(), 1, true)
    report = tc.ptx(load_text { bytes = 768, at = { 0, 0, -1, 0 }, offsets = { 0, 0 }, mode = "im2col" }):kernel "k"
      :emulate { block = { 32 }, smem = 65600, args = { wide, out } }
    assert.matches("coordinate 2 is -1, outside the box of pixels, which has 0..3", report:text(), 1, true)
    report = tc.ptx(load_text { bytes = 768, at = { 2, 0, 0, 0 }, offsets = { 0, 0 }, mode = "im2col" }):kernel "k"
      :emulate { block = { 32 }, smem = 65600, args = { wide, out } }
    assert.matches("coordinate 0 is 2, byte 8 of a row; a box begins at a multiple of 16 bytes", report:text(), 1,
      true)
    assert.error_matches(function()
      fault(tc.tensormap(array, { dims = o.sizes,
        im2col = { lower = { 3 }, upper = { -8 }, channels = 8, pixels = 24 } }), { 0 })
    end, "corners 3 and %-8 of dimension 1 leave none of its 11 elements")
    assert.has_error(function()
      tc.tensormap(array, { dims = o.sizes, box = { 8, 4, 1 }, im2col = { lower = { 0 }, upper = { 0 }, channels = 8,
        pixels = 4 } })
    end)
  end)
end)

-- {W, slices of channels, N} or {W, H, slices, N}: a pixel is a slice of 16 or 32 bytes, a box has one slice.
local function check_interleaved(device)
  for _, o in ipairs {
    { il = "16B", dims = { 16, 7, 5 }, strides = { 400, 4000 }, box = { 8, 4, 3 }, step = { 1, 1, 1 }, at = { 1, 2,
      1 } },
    { il = "16B", dims = { 16, 7, 5 }, strides = { 400, 4000 }, box = { 8, 4, 3 }, step = { 3, 2, 1 }, at = { -2, 6,
      3 } },
    { il = "16B", dims = { 9, 7, 5, 3 }, strides = { 144, 4000, 32000 }, box = { 8, 4, 3, 2 }, step = { 2, 3, 1, 1 },
      at = { 4, 2, 1, 1 } },
    { il = "32B", dims = { 16, 7, 5 }, strides = { 608, 4800 }, box = { 8, 3, 2 }, step = { 1, 1, 2 }, at = { 5, 1,
      0 } },
  } do
    local words, rank = o.il == "16B" and 4 or 8, #o.dims
    local array = ramp({ 32768 }, device)
    local map = tc.tensormap(array, { dims = o.dims, strides = o.strides, box = o.box, element_strides = o.step,
      interleave = o.il, swizzle = o.il == "32B" and "32B" or "none" })
    local want, counts = {}, { 1, 1, 1, 1 }
    for d = 1, rank do counts[d] = d == rank - 1 and 1 or (o.box[d] + o.step[d] - 1) // o.step[d] end
    for i4 = 0, counts[4] - 1 do
      for i3 = 0, counts[3] - 1 do
        for i2 = 0, counts[2] - 1 do
          for i1 = 0, counts[1] - 1 do
            local place, inside = 0, true
            for d, i in ipairs { i1, i2, i3, i4 } do
              if d <= rank then
                local c = o.at[d] + i * o.step[d]
                inside = inside and c >= 0 and c < o.dims[d]
                place = place + c * (d == 1 and words or o.strides[d - 1] // 4)
              end
            end
            for word = 0, words - 1 do want[#want + 1] = inside and place + word + 1 or 0 end
          end
        end
      end
    end
    local out = tc.zeros({ #want }, tc.i32, device and { device = device })
    run(load_text { bytes = 4 * #want, at = o.at, mode = "tile" }, map, out)
    local got = out:totable()
    for i, value in ipairs(want) do
      local at = 4 * (i - 1)
      if o.il == "32B" then at = at ~ (at >> 7 & 1) << 4 end
      assert.equal(value, got[at // 4 + 1])
    end
  end
end

-- Pixels of {W, slices, N} or {W, H, slices, N}: the width is dimension 0, a pixel has one slice, at its coordinate.
local function check_interleaved_pixels(device)
  for _, o in ipairs {
    { il = "16B", dims = { 9, 4, 3 }, lower = { -1 }, upper = { 0 }, offsets = { 1 }, step = { 1 }, at = { 2 },
      slice = 1, image = 0, pixels = 24 },
    { il = "16B", dims = { 6, 5, 4, 2 }, lower = { -1, 0 }, upper = { 0, -1 }, offsets = { 0, 1 }, step = { 2, 1 },
      at = { -1, 1 }, slice = 3, image = 0, pixels = 20 },
    { il = "32B", dims = { 6, 5, 4, 2 }, lower = { -1, -1 }, upper = { -1, -1 }, offsets = { 2, 1 }, step = { 1, 1 },
      at = { 0, -1 }, slice = 2, image = 0, pixels = 40 },
  } do
    local words, rank = o.il == "16B" and 4 or 8, #o.dims
    local strides, pitch, element_strides = {}, o.dims[1] * words * 4, {}
    for d = 2, rank do strides[d - 1], pitch = pitch, pitch * o.dims[d] end
    for d = 1, rank do element_strides[d] = o.step[d] or 1 end
    local array = ramp({ pitch // 4 }, device)
    local map = tc.tensormap(array, { dims = o.dims, strides = strides, element_strides = element_strides,
      interleave = o.il, swizzle = o.il == "32B" and "32B" or "none",
      im2col = { lower = o.lower, upper = o.upper, channels = words, pixels = o.pixels } })
    local w, h, image, want = o.at[1], o.at[2] or 0, o.image, {}
    for _ = 1, o.pixels do
      local x, y = w + o.offsets[1], h + (o.offsets[2] or 0)
      local inside = x >= 0 and x < o.dims[1] and (rank == 3 or y >= 0 and y < o.dims[2]) and image < o.dims[rank]
      local place = x * words + (rank == 4 and y * strides[1] // 4 or 0) + o.slice * strides[rank - 2] // 4
        + image * strides[rank - 1] // 4
      for word = 1, words do want[#want + 1] = inside and place + word or 0 end
      w = w + o.step[1]
      if w > o.dims[1] - 1 + o.upper[1] then
        w, h = o.lower[1], h + (o.step[2] or 1)
        if rank == 3 or h > o.dims[2] - 1 + o.upper[2] then h, image = o.lower[2] or 0, image + 1 end
      end
    end
    local at = { o.at[1] }
    if rank == 4 then at[2] = o.at[2] end
    at[#at + 1], at[#at + 2] = o.slice, o.image
    local out = tc.zeros({ #want }, tc.i32, device and { device = device })
    run(load_text { bytes = 4 * #want, at = at, offsets = o.offsets, mode = "im2col" }, map, out)
    local got = out:totable()
    for i, value in ipairs(want) do
      local byte = 4 * (i - 1)
      if o.il == "32B" then byte = byte ~ (byte >> 7 & 1) << 4 end
      assert.equal(value, got[byte // 4 + 1])
    end
  end
end

describe("a copy of an interleaved layout", function()
  it("takes one slice of the channels of each pixel", function() check_interleaved() end)

  it("takes pixels, a slice of each", function() check_interleaved_pixels() end)
end)

describe("a copy of pixels on a GPU #gpu", function()
  local device = tc.device(DEVICE)
  for name, case in pairs(cases) do
    (device and it or pending)("loads: " .. name, function() check_load(case, device) end)
  end
  ;(device and it or pending)("takes slices of interleaved layouts",
    function() check_interleaved(device) end)
  ;(device and it or pending)("takes pixels of interleaved layouts",
    function() check_interleaved_pixels(device) end)
  ;(device and it or pending)("stores and reduces from pixel to pixel", function() check_store(device) end)
end)
