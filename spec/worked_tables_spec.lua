-- The worked examples of the instruction set's layouts, run as PTX: which byte of shared memory an
-- element of a matrix is, which lane and column of tensor memory, which register of which thread.
-- Numbers in tables are those of the documents, not computed by the library.
local tc = require "tcmma"

local BASE = 0x400 -- of `tile`, the first shared variable
local NAN = 0x7fc0dead -- tensor memory that nobody has written

local function fill(text, values)
  return (text:gsub("%$([%w_]+)", function(name)
    return tostring(values[name] or error("no value for $" .. name))
  end))
end

local function emulate(text, options)
  local report = tc.ptx(text):kernel("k"):emulate(options)
  local first = report.hazards[1]
  assert.is_true(report.completed, first and first.message)
  assert.same({}, report.hazards)
  return report
end

local function f32(bits) return (string.unpack("<f", string.pack("<I4", bits & 0xffffffff))) end

-- ---- images of shared memory ------------------------------------------------------------------------

local Image = {}
Image.__index = Image

local function new_image() return setmetatable({ bytes = {} }, Image) end

-- Writes the code of an element of `dtype` at a byte offset.
function Image:put(offset, value, dtype)
  local code = tc.dtype(dtype):encode(value)
  for i = 0, tc.dtype(dtype).bits // 8 - 1 do self.bytes[offset + i] = code >> 8 * i & 255 end
end

function Image:array(size)
  local list = {}
  for i = 0, size - 1 do list[i + 1] = string.char(self.bytes[i] or 0) end
  return tc.frombytes(table.concat(list), tc.u8, { size })
end

-- An identity of `count` rows, K-major without swizzle: 8 x 16 bytes a core matrix, the second half of
-- K at +128, the next 8 rows at +256.
local function put_identity(image, at, dtype, count)
  local bytes = tc.dtype(dtype).bits // 8
  for r = 0, count - 1 do
    local kb = r * bytes
    image:put(at + r % 8 * 16 + r // 8 * 256 + kb // 16 * 128 + kb % 16, 1, dtype)
  end
end

local IDENTITY_AT = 0x4000
local IDENTITY = 0x401000080000 | (BASE + IDENTITY_AT) >> 4

-- ---- a kernel around tcgen05 ------------------------------------------------------------------------

local SIZE = 32768

-- Brings `image` (one a CTA) to shared memory, runs `setup` in all threads and `issue` in one thread,
-- waits for its commit, and writes the whole tensor memory to out[cta][lane][column].
local TCGEN05 = [[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 out)
{
 .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .b32 %v<132>; .reg .b64 %rd<40>;
 .shared .align 1024 .b8 tile[$size];
 .shared .align 8 .b64 bars[2];
 .shared .align 4 .b32 slot;
 mov.u32 %r0, %tid.x;
 shr.u32 %r1, %r0, 5;
 mov.u32 %r2, %cluster_ctarank;
 mov.u32 %r3, tile;
 mov.u32 %r4, bars;
 mov.u32 %r5, slot;
 and.b32 %r8, %r0, 31;
 setp.eq.u32 %p0, %r0, 0;
 setp.eq.u32 %p1, %r1, 0;
 @%p0 mbarrier.init.shared::cta.b64 [%r4], 1;
 @%p0 mbarrier.init.shared::cta.b64 [%r4+8], 1;
 @%p1 tcgen05.alloc.cta_group::$group.sync.aligned.shared::cta.b32 [%r5], 512;
 tcgen05.fence::before_thread_sync;
 bar.sync 0;
 tcgen05.fence::after_thread_sync;
 ld.shared.b32 %r6, [%r5];
 ld.param.u64 %rd0, [image];
 mad.wide.u32 %rd0, %r2, $size, %rd0;
 @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], $size;
 @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%rd0], $size, [%r4];
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
 @!%p2 bra loaded;
 shl.b32 %r7, %r1, 21;
 add.u32 %r7, %r7, %r6;
 $setup
 tcgen05.wait::st.sync.aligned;
 tcgen05.fence::before_thread_sync;
 $sync
 tcgen05.fence::after_thread_sync;
 setp.eq.u32 %p3, %r2, 0;
 and.pred %p3, %p3, %p0;
 @!%p3 bra issued;
 $issue
 $commit
issued:
done:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4+8], 0;
 @!%p2 bra done;
 tcgen05.fence::after_thread_sync;
 ld.param.u64 %rd1, [out];
 shl.b32 %r9, %r2, 7;
 add.u32 %r9, %r9, %r0;
 mad.wide.u32 %rd1, %r9, 2048, %rd1;
 mov.u32 %r10, 0;
dump:
 tcgen05.ld.sync.aligned.32x32b.x4.b32 {%v0,%v1,%v2,%v3}, [%r7];
 tcgen05.wait::ld.sync.aligned;
 st.global.v4.b32 [%rd1], {%v0,%v1,%v2,%v3};
 add.u64 %rd1, %rd1, 16;
 add.u32 %r7, %r7, 4;
 add.u32 %r10, %r10, 4;
 setp.lt.u32 %p4, %r10, 512;
 @%p4 bra dump;
 tcgen05.fence::before_thread_sync;
 $sync
 @%p1 tcgen05.dealloc.cta_group::$group.sync.aligned.b32 %r6, 512;
 @%p1 tcgen05.relinquish_alloc_permit.cta_group::$group.sync.aligned;
 ret;
}
]]

local COMMIT = { "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+8];",
  "mov.b16 %h0, 3;\n tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    .. " [%r4+8], %h0;" }
local SYNC = { "bar.sync 0;", "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" }

-- Returns cells[cta][lane][column], all from 0.
local function tensor_memory(options)
  local group = options.group or 1
  local images = options.images or { options.image or new_image() }
  local parts = {}
  for i = 1, group do parts[i] = images[i]:array(SIZE):tobytes() end
  local image = tc.frombytes(table.concat(parts), tc.u8, { group * SIZE })
  local out = tc.full({ group, 128, 512 }, 0, tc.u32)
  emulate(fill(TCGEN05, { size = SIZE, group = group, setup = options.setup or "", issue = options.issue,
    commit = COMMIT[group], sync = SYNC[group] }),
    { grid = { group }, block = { 128 }, cluster = { group }, args = { image, out }, mode = options.mode })
  local cells = {}
  for cta, lanes in ipairs(out:totable()) do
    cells[cta - 1] = {}
    for lane, row in ipairs(lanes) do
      cells[cta - 1][lane - 1] = {}
      for column, bits in ipairs(row) do cells[cta - 1][lane - 1][column - 1] = bits end
    end
  end
  return cells
end

local function mma(options)
  return fill("mov.b64 %rd10, $a;\n mov.b64 %rd11, $b;\n add.u32 %r20, %r6, $d;\n"
    .. " tcgen05.mma$ws.cta_group::$group.kind::$kind [%r20], %rd10, %rd11, $idesc, $enable;\n",
    { a = options.a, b = options.b, d = options.d or 0, ws = options.ws and ".ws" or "",
      group = options.group or 1, kind = options.kind, idesc = options.idesc, enable = options.enable or 0 })
end

-- ---- elements of a tile in shared memory ------------------------------------------------------------

-- idesc without M and N: D is f32
local KINDS = {
  f16 = { kind = "f16", idesc = 0x10, k = 16 },
  bf16 = { kind = "f16", idesc = 0x490, k = 16 },
  e4m3 = { kind = "f8f6f4", idesc = 0x10, k = 32 },
  tf32 = { kind = "tf32", idesc = 0x910, k = 8 },
}
local TRANSPOSE_A, TRANSPOSE_B = 0x8000, 0x10000

-- desc: the descriptor with its base at 0x400; step: what its address grows by for the next K of an
-- instruction; each element: row, k, byte offset; box, boxes: the TMA loads that leave the same image.
local TILES = {
  { name = "f16 K-major 128B", dtype = "f16", k = 64, desc = 0x4000404000010040, wgmma = 0x4000004000010040,
    step = 32, swizzle = "128B", box = { 64, 128 },
    { 1, 0, 0x90 }, { 1, 8, 0x80 }, { 3, 5, 0x1BA }, { 7, 63, 0x38E }, { 8, 0, 0x400 }, { 77, 37, 0x269A },
    { 127, 63, 0x3F8E } },
  { name = "bf16 K-major 128B", dtype = "bf16", k = 64, desc = 0x4000404000010040, wgmma = 0x4000004000010040,
    step = 32, swizzle = "128B", box = { 64, 128 },
    { 1, 0, 0x90 }, { 1, 8, 0x80 }, { 3, 5, 0x1BA }, { 7, 63, 0x38E }, { 8, 0, 0x400 }, { 77, 37, 0x269A },
    { 127, 63, 0x3F8E } },
  { name = "f16 K-major 64B", dtype = "f16", k = 32, desc = 4 << 61 | 0x402000010040,
    wgmma = 2 << 62 | 0x002000010040, step = 32, swizzle = "64B", box = { 32, 128 },
    { 1, 0, 0x40 }, { 2, 0, 0x90 }, { 4, 0, 0x120 }, { 8, 0, 0x200 }, { 9, 9, 0x252 } },
  { name = "f16 K-major 32B", dtype = "f16", k = 16, desc = 6 << 61 | 0x401000010040,
    wgmma = 3 << 62 | 0x001000010040, step = 32, swizzle = "32B", box = { 16, 128 },
    { 1, 0, 0x20 }, { 4, 0, 0x90 }, { 5, 9, 0xA2 }, { 8, 0, 0x100 } },
  { name = "f16 K-major none", dtype = "f16", k = 16, desc = 0x401000080040, wgmma = 0x001000080040, step = 256,
    { 1, 0, 0x10 }, { 0, 8, 0x80 }, { 8, 0, 0x100 }, { 9, 9, 0x192 } },
  { name = "fp8 K-major 128B", dtype = "e4m3", k = 128, desc = 0x4000404000010040, wgmma = 0x4000004000010040,
    step = 32, swizzle = "128B", box = { 128, 128 },
    { 3, 16, 0x1A0 }, { 77, 37, 0x26F5 }, { 127, 127, 0x3F8F } },
  { name = "tf32 K-major 128B", dtype = "tf32", k = 32, desc = 0x4000404000010040, wgmma = 0x4000004000010040,
    step = 32, swizzle = "128B", box = { 32, 128 },
    { 3, 4, 0x1A0 }, { 77, 21, 0x2684 }, { 127, 31, 0x3F8C } },
  { name = "f16 MN-major 128B", dtype = "f16", k = 64, desc = 0x4000404002000040, wgmma = 0x4000004002000040,
    step = 2048, major = "mn", lbo = 8192, swizzle = "128B", box = { 64, 64 }, boxes = 2,
    { 0, 1, 0x90 }, { 8, 1, 0x80 }, { 64, 0, 0x2000 }, { 0, 8, 0x400 }, { 77, 37, 0x32CA }, { 127, 63, 0x3F8E } },
  { name = "fp8 MN-major 128B", dtype = "e4m3", k = 64, desc = 0x4000404000010040, step = 4096, major = "mn",
    swizzle = "128B", box = { 128, 64 },
    { 16, 1, 0x80 }, { 77, 37, 0x129D } },
  { name = "tf32 MN-major base32B", dtype = "tf32", k = 32, desc = 0x2000402001000040, step = 1024, major = "mn",
    lbo = 4096, swizzle = "128B_atom_32B", box = { 32, 32 }, boxes = 4,
    { 0, 1, 0xA0 }, { 8, 1, 0x80 }, { 0, 4, 0x200 }, { 32, 0, 0x1000 }, { 77, 21, 0x2A94 } },
}

-- The image with value i in the i-th element of the table, and what reads have to give: matrix[row][k].
local function numbered(tile)
  local image, expected = new_image(), {}
  for i, element in ipairs(tile) do
    image:put(element[3], i, tile.dtype)
    expected[element[1]] = expected[element[1]] or {}
    expected[element[1]][element[2]] = i
  end
  return image, expected
end

-- Compares found(row, k) with the sparse matrix for all elements of a tile.
local function compare(expected, rows, columns, found)
  for row = 0, rows - 1 do
    for k = 0, columns - 1 do
      local value = (expected[row] or {})[k] or 0
      if found(row, k) ~= value then
        error(("(%d, %d) is %s, expected %s"):format(row, k, found(row, k), value))
      end
    end
  end
end

describe("a worked tile in shared memory", function()
  it("lies at the base that the descriptors name", function()
    local out = tc.zeros({ 1 }, tc.u32)
    emulate([[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .b32 %r<2>; .reg .b64 %rd<2>;
 .shared .align 1024 .b8 tile[32768];
 ld.param.u64 %rd0, [out];
 mov.u32 %r0, tile;
 st.global.u32 [%rd0], %r0;
 ret;
}]], { block = { 1 }, args = { out } })
    assert.equal(BASE, out:get(0))
  end)

  for _, tile in ipairs(TILES) do
    local kind = KINDS[tile.dtype]
    local transposed = tile.major == "mn"

    -- B is an identity: step s of K leaves A's columns s * k .. in D's columns.
    it(tile.name .. ", as A of tcgen05.mma", function()
      local image, expected = numbered(tile)
      put_identity(image, IDENTITY_AT, tile.dtype, kind.k)
      local issue = {}
      for s = 0, tile.k // kind.k - 1 do
        issue[s + 1] = mma { a = tile.desc + (s * tile.step >> 4), b = IDENTITY, d = s * kind.k, kind = kind.kind,
          idesc = kind.idesc | 128 >> 4 << 24 | kind.k >> 3 << 17 | (transposed and TRANSPOSE_A or 0) }
      end
      local cells = tensor_memory { image = image, issue = table.concat(issue) }
      compare(expected, 128, tile.k, function(row, k) return f32(cells[0][row][k]) end)
    end)

    -- A is an identity: step s of K leaves B's row k, its n in D's column.
    it(tile.name .. ", as B of tcgen05.mma", function()
      local image, expected = numbered(tile)
      put_identity(image, IDENTITY_AT, tile.dtype, kind.k)
      local issue = {}
      for s = 0, tile.k // kind.k - 1 do
        issue[s + 1] = mma { a = IDENTITY, b = tile.desc + (s * tile.step >> 4), d = s * 128, kind = kind.kind,
          idesc = kind.idesc | 128 >> 4 << 24 | 128 >> 3 << 17 | (transposed and TRANSPOSE_B or 0) }
      end
      local cells = tensor_memory { image = image, issue = table.concat(issue) }
      compare(expected, 128, tile.k, function(row, k)
        return f32(cells[0][k % kind.k][k // kind.k * 128 + row])
      end)
    end)
  end
end)

-- ---- the image that TMA leaves ----------------------------------------------------------------------

-- Loads `boxes` boxes of `bytes`, the c-th at column c * columns, row c * rows of the map; shared
-- memory goes to `out`.
local function tma_image(map, options)
  local issue = {}
  for c = 0, (options.boxes or 1) - 1 do
    local at = {}
    for i, step in ipairs(options.at) do at[i] = tostring(type(step) == "table" and step[c + 1] or step) end
    issue[c + 1] = fill("@%p0 cp.async.bulk.tensor.$dims.shared::cta.global.tile.mbarrier::complete_tx::bytes"
      .. " [%r1+$to], [%rd0, {$at}], [%r2];", { dims = #at .. "d", to = c * options.pitch, at = table.concat(at, ",") })
  end
  local out = tc.full({ SIZE }, 0xee, tc.u8)
  local text = fill([[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{
 .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
 .shared .align 1024 .b8 tile[$size];
 .shared .align 8 .b64 bar;
 mov.u32 %r0, %tid.x;
 mov.u32 %r1, tile;
 mov.u32 %r2, bar;
 mov.b64 %rd0, map;
 cvta.param.u64 %rd0, %rd0;
 ld.param.u64 %rd1, [out];
 setp.eq.u32 %p0, %r0, 0;
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 shl.b32 %r3, %r0, 2;
 mov.u32 %r4, 0;
 add.u32 %r5, %r1, %r3;
clear:
 st.shared.b32 [%r5], 0;
 add.u32 %r5, %r5, 512;
 add.u32 %r4, %r4, 512;
 setp.lt.u32 %p1, %r4, $size;
 @%p1 bra clear;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], $bytes;
 $issue
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra loaded;
 mov.u32 %r4, 0;
 add.u32 %r5, %r1, %r3;
 cvt.u64.u32 %rd2, %r3;
 add.u64 %rd1, %rd1, %rd2;
dump:
 ld.shared.b32 %r6, [%r5];
 st.global.b32 [%rd1], %r6;
 add.u32 %r5, %r5, 512;
 add.u64 %rd1, %rd1, 512;
 add.u32 %r4, %r4, 512;
 setp.lt.u32 %p1, %r4, $size;
 @%p1 bra dump;
 bar.sync 0;
 ret;
}
]], { size = SIZE, bytes = options.bytes, issue = table.concat(issue, "\n") })
  emulate(text, { block = { 128 }, args = { map, out } })
  return out:tobytes()
end

describe("the image of a tiled load", function()
  for _, tile in ipairs(TILES) do
    if tile.swizzle then
      it(tile.name .. ": the worked offsets", function()
        local dtype = tc.dtype(tile.dtype)
        local bytes = dtype.bits // 8
        local transposed = tile.major == "mn"
        local rows, columns = transposed and tile.k or 128, transposed and 128 or tile.k
        local source = tc.zeros({ rows, columns }, dtype)
        for i, element in ipairs(tile) do
          if transposed then
            source:set(element[2], element[1], i)
          else
            source:set(element[1], element[2], i)
          end
        end
        local boxes, inner = tile.boxes or 1, tile.box[1]
        local at = { {}, 0 }
        for c = 0, boxes - 1 do at[1][c + 1] = c * inner end
        local opts = { box = tile.box, swizzle = tile.swizzle }
        if tile.dtype == "e4m3" then source = source:view "u8" end
        local image = tma_image(tc.tensormap(source, opts),
          { boxes = boxes, at = at, pitch = tile.lbo or 0, bytes = rows * columns * bytes })
        local expected = numbered(tile):array(SIZE):tobytes()
        for offset = 0, SIZE - 1 do
          if image:byte(offset + 1) ~= expected:byte(offset + 1) then
            error(("byte 0x%X is %d, expected %d"):format(offset, image:byte(offset + 1), expected:byte(offset + 1)))
          end
        end
      end)
    end
  end

  -- bytes 0 .. 255 of 16 lines of 16-byte units: unit u of line l holds 16 * l + u in each of its bytes
  local function lines(width, count)
    local list = {}
    for l = 0, count - 1 do
      for b = 0, width - 1 do list[#list + 1] = (16 * l + b // 16) % 256 end
    end
    return tc.from_table(list, tc.u8, { count, width })
  end

  -- swizzle, address bits: a ^ (((a >> shift) & mask) << to)
  for _, row in ipairs {
    { "none", 128, 7, 0, 4 }, { "32B", 32, 7, 1, 4 }, { "64B", 64, 7, 3, 4 }, { "128B", 128, 7, 7, 4 },
    { "128B_atom_32B", 128, 7, 3, 5 }, { "128B_atom_64B", 128, 7, 1, 6 },
    { "128B", 64, 7, 7, 4 }, { "128B", 32, 7, 7, 4 }, { "64B", 32, 7, 3, 4 }, { "128B", 16, 7, 7, 4 },
  } do
    local swizzle, width, shift, mask, to = table.unpack(row)
    it(("swizzle %s of rows of %d bytes, on address bits"):format(swizzle, width), function()
      local source = lines(width, 64)
      local image = tma_image(tc.tensormap(source, { box = { width, 64 }, swizzle = swizzle }),
        { at = { 0, 0 }, pitch = 0, bytes = 64 * width })
      local all = source:tobytes()
      for a = 0, 64 * width - 1 do
        local address = a ~ (a >> shift & mask) << to
        assert.equal(all:byte(a + 1), image:byte(address + 1), ("byte 0x%X"):format(a))
      end
    end)
  end

  it("of three dimensions with element strides, beyond the array and before it", function()
    -- array [4][6][32] of u16, element = 1000 * z + 100 * y + x + 1
    local list = {}
    for z = 0, 3 do for y = 0, 5 do for x = 0, 31 do list[#list + 1] = 1000 * z + 100 * y + x + 1 end end end
    local source = tc.from_table(list, tc.u16, { 4, 6, 32 })
    local map = tc.tensormap(source, { box = { 16, 5, 3 }, element_strides = { 1, 2, 1 } })
    local image = tma_image(map, { at = { -8, 2, 2 }, pitch = 0, bytes = 16 * 3 * 3 * 2 })
    for b2 = 0, 2 do
      for b1 = 0, 2 do
        for b0 = 0, 15 do
          local x, y, z = -8 + b0, 2 + 2 * b1, 2 + b2
          local inside = x >= 0 and y < 6 and z < 4
          local offset = (b2 * 3 + b1) * 32 + b0 * 2
          assert.equal(inside and 1000 * z + 100 * y + x + 1 or 0, (string.unpack("<I2", image, offset + 1)))
        end
      end
    end
  end)
end)

-- ---- views of one image by other descriptors --------------------------------------------------------

-- The image of rows x 64 f16 with swizzle 128B: element (r, c) is 64 * r + c, up to 2047 exact in f16.
local function swizzled_rows(rows)
  local image = new_image()
  for r = 0, rows - 1 do
    for c = 0, 63 do
      local a = r * 128 + c * 2
      image:put(a ~ (a >> 7 & 7) << 4, 64 * r + c, "f16")
    end
  end
  return image
end

describe("a tile read by another descriptor", function()
  it("32 rows of 128 bytes (128B) as 128 rows of 32 bytes (32B, SBO 256)", function()
    local image = swizzled_rows(32)
    put_identity(image, IDENTITY_AT, "f16", 16)
    local cells = tensor_memory { image = image,
      issue = mma { a = 6 << 61 | 0x401000010040, b = IDENTITY, kind = "f16", idesc = 0x10 | 8 << 24 | 2 << 17 } }
    for p = 0, 127 do
      local stripe = (p & 3) ~ (p >> 3 & 3)
      for k = 0, 15 do assert.equal(64 * (p >> 2) + 16 * stripe + k, f32(cells[0][p][k])) end
    end
  end)

  it("SBO 32 with 128B: row 8j + i at i * 128 + j * 32", function()
    local image = swizzled_rows(8)
    put_identity(image, IDENTITY_AT, "f16", 16)
    local cells = tensor_memory { image = image,
      issue = mma { a = IDENTITY, b = 0x4000400200010040, kind = "f16", idesc = 0x10 | 8 << 24 | 4 << 17 } }
    for n = 0, 31 do
      for k = 0, 15 do assert.equal(64 * (n % 8) + 16 * (n // 8) + k, f32(cells[0][k][n])) end
    end
  end)

  it("two boxes of 8 f16 x 128 rows without swizzle: LBO 2048, SBO 128", function()
    local image = new_image()
    for r = 0, 127 do
      for k = 0, 15 do image:put(k // 8 * 2048 + r * 16 + k % 8 * 2, 16 * r + k, "f16") end
    end
    put_identity(image, IDENTITY_AT, "f16", 16)
    local cells = tensor_memory { image = image,
      issue = mma { a = 0x400800800040, b = IDENTITY, kind = "f16", idesc = 0x10 | 8 << 24 | 2 << 17 } }
    for r = 0, 127 do
      for k = 0, 15 do assert.equal(16 * r + k, f32(cells[0][r][k])) end
    end
  end)

  it("8 rows further: + SBO; 64 columns of MN-major further: + LBO", function()
    local image, expected = numbered(TILES[1])
    put_identity(image, IDENTITY_AT, "f16", 16)
    local cells = tensor_memory { image = image, -- rows 72 .. 135 from 9 * 1024 on; k 32 .. 47
      issue = mma { a = TILES[1].desc + (9 * 1024 + 2 * 32 >> 4), b = IDENTITY, kind = "f16",
        idesc = 0x10 | 4 << 24 | 2 << 17 } }
    assert.equal(expected[77][37], f32(cells[0][5][5])) -- row 5 of layout F: lane 5
    image, expected = numbered(TILES[8])
    put_identity(image, IDENTITY_AT, "f16", 16)
    cells = tensor_memory { image = image,
      issue = mma { a = TILES[8].desc + (8192 + 2 * 2048 >> 4), b = IDENTITY, kind = "f16",
        idesc = 0x10 | 4 << 24 | 2 << 17 | TRANSPOSE_A } }
    assert.equal(expected[77][37], f32(cells[0][13][5]))
  end)

  -- manual's own examples as strides in elements; the descriptor is that of the text
  for _, row in ipairs {
    { "tf32 K-major none ((8,2),(4,4)):((4,32),(1,64))", "tf32", 256, 128, false, 16,
      function(r, k) return r % 8 * 4 + r // 8 * 32 + k % 4 + k // 4 * 64 end, 2 * 256 },
  } do
    local name, dtype, lbo, sbo, transposed, count, offset, step = table.unpack(row)
    it("the manual's " .. name, function()
      local kind, image = KINDS[dtype], new_image()
      for r = 0, 15 do
        for k = 0, count - 1 do image:put(offset(r, k) * 4, 16 * r + k, dtype) end
      end
      put_identity(image, IDENTITY_AT, dtype, kind.k)
      local issue = {}
      for s = 0, count // kind.k - 1 do
        issue[s + 1] = mma { a = IDENTITY, b = 1 << 46 | sbo >> 4 << 32 | lbo >> 4 << 16 | (BASE + s * step) >> 4,
          d = 16 * s, kind = kind.kind,
          idesc = kind.idesc | 8 << 24 | 2 << 17 | (transposed and TRANSPOSE_B or 0) }
      end
      local cells = tensor_memory { image = image, issue = table.concat(issue) }
      for r = 0, 15 do
        for k = 0, count - 1 do
          assert.equal(16 * r + k, f32(cells[0][k % kind.k][k // kind.k * 16 + r]))
        end
      end
    end)
  end
end)

-- ---- D and A in tensor memory -----------------------------------------------------------------------

-- Rows of 16-byte units without swizzle, as put_identity; `units` a row.
local function put_row(image, at, row, units, values, dtype)
  local bytes = tc.dtype(dtype).bits // 8
  for i, value in ipairs(values) do
    local kb = (i - 1) * bytes
    image:put(at + row % 8 * 16 + row // 8 * units * 128 + kb // 16 * 128 + kb % 16, value, dtype)
  end
end

-- A[m] = (m, 1, 0 ..), B[n] = (1, 256 n, 0 ..): D[m][n] = m + 256 n names its place.
local function named_images(group, m_count, n_count, b_units)
  local images = {}
  for c = 0, group - 1 do
    images[c + 1] = new_image()
    for m = 0, m_count // group - 1 do put_row(images[c + 1], 0, m, 2, { c * m_count // group + m, 1 }, "f16") end
    for n = 0, n_count // group - 1 do
      put_row(images[c + 1], IDENTITY_AT, n, b_units, { 1, 256 * (c * n_count // group + n) }, "f16")
    end
  end
  return images
end

local ROWS = 0x401000080040

-- place(m, n) -> cta, lane, column as the table has it; examples: m, n, cta, lane, column.
local LAYOUTS = {
  { name = "A: a pair, M 256", group = 2, m = 256, n = 64,
    place = function(m, n) return m // 128, m % 128, n end,
    { 130, 0, 1, 2, 0 }, { 130, 63, 1, 2, 63 } },
  { name = "B: a pair, M 128", group = 2, m = 128, n = 256,
    place = function(m, n) return m // 64, m % 64 + (n >= 128 and 64 or 0), n % 128 end,
    { 70, 200, 1, 70, 72 } },
  { name = "D: M 128", m = 128, n = 256, place = function(m, n) return 0, m, n end, { 77, 200, 0, 77, 200 } },
  { name = "D: .ws, M 128", ws = true, m = 128, n = 128, place = function(m, n) return 0, m, n end,
    { 77, 100, 0, 77, 100 } },
  { name = "E: .ws, M 64", ws = true, m = 64, n = 128,
    place = function(m, n) return 0, m + (n >= 64 and 64 or 0), n % 64 end, { 5, 70, 0, 69, 6 } },
  { name = "F: M 64", m = 64, n = 256, place = function(m, n) return 0, m % 16 + 32 * (m // 16), n end,
    { 37, 0, 0, 69, 0 }, { 37, 255, 0, 69, 255 } },
  { name = "F: M 64 from lane 16", m = 64, n = 40, lane = 16,
    place = function(m, n) return 0, 16 + m % 16 + 32 * (m // 16), n end, { 37, 3, 0, 85, 3 } },
  { name = "G: .ws, M 32", ws = true, m = 32, n = 64,
    place = function(m, n) return 0, m + 32 * (n // 16), n % 16 end, { 5, 33, 0, 69, 1 } },
}

local function check_layout(layout, cells)
  for _, example in ipairs(layout) do
    local m, n, cta, lane, column = table.unpack(example)
    assert.equal(m + 256 * n, f32(cells[cta][lane][column]))
  end
  for m = 0, layout.m - 1 do
    for n = 0, layout.n - 1 do
      local cta, lane, column = layout.place(m, n)
      if f32(cells[cta][lane][column]) ~= m + 256 * n then
        error(("D(%d, %d) is not at CTA %d lane %d column %d"):format(m, n, cta, lane, column))
      end
      cells[cta][lane][column] = NAN
    end
  end
  for cta, lanes in pairs(cells) do
    for lane, row in pairs(lanes) do
      for column = 0, 255 do
        if row[column] ~= NAN then error(("CTA %d lane %d column %d was written"):format(cta, lane, column)) end
      end
    end
  end
end

describe("the accumulator in tensor memory, layout", function()
  for _, layout in ipairs(LAYOUTS) do
    it(layout.name, function()
      local group = layout.group or 1
      check_layout(layout, tensor_memory { group = group, images = named_images(group, layout.m, layout.n, 2),
        issue = mma { a = ROWS, b = IDENTITY, d = (layout.lane or 0) << 16, ws = layout.ws, group = group,
          kind = "f16", idesc = 0x10 | layout.m >> 4 << 24 | layout.n >> 3 << 17 } })
    end)
  end

  -- every nibble of the metadata keeps elements 0 and 1 of its four
  it("C: a pair, M 128, sparse", function()
    local layout = { m = 128, n = 64, place = function(m, n)
      local mu = m % 64
      return m // 64, mu % 16 + 32 * (mu // 16), n
    end }
    check_layout(layout, tensor_memory { group = 2, images = named_images(2, 128, 64, 4),
      setup = "mov.b32 %r20, 0x44444444;\n tcgen05.st.sync.aligned.32x32b.x2.b32 [%r7+256], {%r20,%r20};",
      issue = fill("mov.b64 %rd10, $a;\n mov.b64 %rd11, $b;\n add.u32 %r20, %r6, 256;\n"
        .. "tcgen05.mma.sp.cta_group::2.kind::f16 [%r6], %rd10, %rd11, [%r20], $idesc, 0;",
        { a = ROWS, b = 0x402000080000 | (BASE + IDENTITY_AT) >> 4, idesc = 0x14 | 8 << 24 | 8 << 17 }) })
  end)
end)

-- A's words (8 columns a lane) lie in the image, 32 bytes a lane; all threads store their lane's.
local STORE_A = {}
for c = 0, 7 do STORE_A[c + 1] = ("ld.shared.b32 %%v%d, [%%r20+%d];"):format(c, 4 * c) end
STORE_A = "mad.lo.u32 %r20, %r0, 32, %r3;\n" .. table.concat(STORE_A, "\n")
  .. "\n tcgen05.st.sync.aligned.32x32b.x8.b32 [%r7+256], {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7};"

local function put_words(image, lane, values, dtype)
  local bits = tc.dtype(dtype).bits
  for k, value in ipairs(values) do
    local at = lane * 32 + (k - 1) * bits // 8
    if bits == 4 then
      image.bytes[at] = (image.bytes[at] or 0) | tc.dtype(dtype):encode(value) << 4 * ((k - 1) % 2)
    else
      image:put(at, value, dtype)
    end
  end
end

local FP4 = { [0] = 0, 0.5, 1, 1.5, 2, 3, 4, 6 }

describe("A in tensor memory", function()
  local function row(m, count, value)
    local list = {}
    for k = 0, count - 1 do list[k + 1] = value(m, k) end
    return list
  end

  -- elements of a column: 32 / bits, the lowest k in the low bits
  for _, case in ipairs {
    { "f16: column k / 2, half k % 2", "f16", 128, 0, function(m, k) return 16 * m + k end },
    { "8-bit: column k / 4, byte k % 4", "e4m3", 128, 0, function(m, k) return (5 * m + k) % 17 end },
    { "tf32: column k", "tf32", 128, 0, function(m, k) return 8 * m + k end },
    { "f16, M 64: layout F", "f16", 64, 0, function(m, k) return 16 * m + k end },
    { "f16, M 64: layout F from lane 16", "f16", 64, 16, function(m, k) return 16 * m + k end },
  } do
    local name, dtype, m_count, lane, value = table.unpack(case)
    it(name, function()
      local kind, image = KINDS[dtype], new_image()
      local function lane_of(m) return m_count == 64 and lane + m % 16 + 32 * (m // 16) or m end
      for m = 0, m_count - 1 do put_words(image, lane_of(m), row(m, kind.k, value), dtype) end
      put_identity(image, IDENTITY_AT, dtype, kind.k)
      local cells = tensor_memory { image = image, setup = STORE_A,
        issue = fill("mov.b64 %rd11, $b;\n add.u32 %r20, %r6, $d;\n"
          .. "tcgen05.mma.cta_group::1.kind::$kind [%r20], [%r20+256], %rd11, $idesc, 0;",
          { b = IDENTITY, d = lane << 16, kind = kind.kind,
            idesc = kind.idesc | m_count >> 4 << 24 | kind.k >> 3 << 17 }) }
      for m = 0, m_count - 1 do
        for k = 0, kind.k - 1 do assert.equal(value(m, k), f32(cells[0][lane_of(m)][k])) end
      end
    end)
  end

  it("mxf4: 8 nibbles a column, the lowest k in the low bits", function()
    local image = new_image()
    local function value(m, k) return FP4[(3 * m + k) % 8] end
    for m = 0, 127 do put_words(image, m, row(m, 64, value), "e2m1") end
    for n = 0, 63 do -- an identity of 64 rows of 32 bytes, two elements a byte; 2 is the code of 1
      local at = IDENTITY_AT + n % 8 * 16 + n // 8 * 256 + n // 32 * 128 + n % 32 // 2
      image.bytes[at] = 2 << 4 * (n % 2)
    end
    local cells = tensor_memory { image = image,
      setup = STORE_A .. [[

 mov.b32 %r20, 0x7f7f7f7f;
 tcgen05.st.sync.aligned.32x32b.x4.b32 [%r7+128], {%r20,%r20,%r20,%r20};]],
      issue = fill("mov.b64 %rd11, $b;\n add.u32 %r20, %r6, 128;\n"
        .. "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X"
        .. " [%r6], [%r6+256], %rd11, $idesc, [%r20], [%r20], 0;",
        { b = IDENTITY, idesc = 0x08800480 | 64 >> 3 << 17 }) }
    for m = 0, 127 do
      for k = 0, 63 do assert.equal(value(m, k), f32(cells[0][m][k])) end
    end
  end)

  it("of a pair with M 128: each CTA's 64 rows twice", function()
    local images = {}
    for c = 0, 1 do
      images[c + 1] = new_image()
      for lane = 0, 127 do
        put_words(images[c + 1], lane, row(64 * c + lane % 64, 16, function(m, k) return 16 * m + k end), "f16")
      end
      for n = 0, 15 do put_row(images[c + 1], IDENTITY_AT, n, 2, row(n, 16, function(i, k)
        return i == k and c + 1 or 0
      end), "f16") end
    end
    local cells = tensor_memory { group = 2, images = images, setup = STORE_A,
      issue = fill("mov.b64 %rd11, $b;\n"
        .. "tcgen05.mma.cta_group::2.kind::f16 [%r6], [%r6+256], %rd11, $idesc, 0;",
        { b = IDENTITY, idesc = 0x10 | 128 >> 4 << 24 | 32 >> 3 << 17 }) }
    for m = 0, 127 do
      for n = 0, 31 do
        local cta, lane, column = m // 64, m % 64 + (n >= 16 and 64 or 0), n % 16
        assert.equal((16 * m + n % 16) * (n // 16 + 1), f32(cells[cta][lane][column]))
      end
    end
  end)
end)

-- ---- fragments of tcgen05.ld and tcgen05.st ---------------------------------------------------------

local function registers(count)
  local list = {}
  for i = 0, count - 1 do list[i + 1] = "%v" .. i end
  return "{" .. table.concat(list, ",") .. "}"
end

-- registers of .x1, lanes, columns of .x1; map(t, r) -> lane, column
local SHAPES = {
  ["32x32b"] = { 1, 32, 1, function(t, r) return t, r end },
  ["16x64b"] = { 1, 16, 2, function(t, r) return (t >> 2) + 8 * (t & 1), 2 * r + (t >> 1 & 1) end },
  ["16x128b"] = { 2, 16, 4, function(t, r) return (t >> 2) + 8 * (r & 1), 4 * (r >> 1) + (t & 3) end },
  ["16x256b"] = { 4, 16, 8, function(t, r)
    return (t >> 2) + 8 * (r >> 1 & 1), 8 * (r >> 2) + 2 * (t & 3) + (r & 1)
  end },
  ["16x32bx2"] = { 1, 16, 1, function(t, r) return t % 16, t < 16 and r or r + 40 end, split = ", 40" },
}

-- Column c of every lane: lane << 16 | c, in the first 256 columns.
local NUMBERED_CELLS = { "shl.b32 %r21, %r0, 16;" }
for c = 0, 255 do
  NUMBERED_CELLS[#NUMBERED_CELLS + 1] =
    ("add.u32 %%r20, %%r21, %d;\n tcgen05.st.sync.aligned.32x32b.x1.b32 [%%r7+%d], {%%r20};"):format(c, c)
end
NUMBERED_CELLS = table.concat(NUMBERED_CELLS, "\n") .. "\n tcgen05.wait::st.sync.aligned;"

-- What a load gives, from column 256 on: cells[lane of the thread][256 + register].
local function loaded(shape, repeats, at, pack)
  local count = SHAPES[shape][1] * repeats
  return tensor_memory { issue = "", setup = NUMBERED_CELLS .. fill([[

 tcgen05.ld.sync.aligned.$shape.x$n$pack.b32 $to, [%r7+$at]$split;
 tcgen05.wait::ld.sync.aligned;
 tcgen05.st.sync.aligned.32x32b.x$count.b32 [%r7+256], $to;]],
    { shape = shape, n = repeats, pack = pack and ".pack::16b" or "", to = registers(count), at = at or 0,
      split = SHAPES[shape].split or "", count = count }) }[0]
end

describe("tcgen05.ld", function()
  -- shape, xN, thread, register, lane, column
  for _, row in ipairs {
    { "16x256b", 2, 5, 6, 9, 10 },
    { "16x64b", 4, 6, 3, 1, 7 },
    { "16x128b", 2, 7, 3, 9, 7 },
  } do
    local shape, repeats, t, r, lane, column = table.unpack(row)
    it(("%s.x%d: thread %d, register %d is lane %d, column %d"):format(table.unpack(row)), function()
      local cells = loaded(shape, repeats)
      for w = 0, 3 do assert.equal((32 * w + lane) << 16 | column, cells[32 * w + t][256 + r]) end
    end)
  end

  it("32x32b.x8.pack::16b: thread 3, register 5 is lane 3, columns 10 and 11", function()
    local cells = loaded("32x32b", 8, 0, true)
    for w = 0, 3 do assert.equal(11 << 16 | 10, cells[32 * w + 3][256 + 5]) end
  end)

  for shape, row in pairs(SHAPES) do
    local _, lanes, _, map = table.unpack(row)
    for _, repeats in ipairs { 1, 2, 4, 8, 16, 32, 64, 128 } do
      local count = row[1] * repeats
      if count <= 128 and row[3] * repeats <= 216 then
        it(("%s.x%d"):format(shape, repeats), function()
          for at = 0, 32 - lanes, 16 do
            local cells = loaded(shape, repeats, at << 16)
            for thread = 0, 127 do
              for r = 0, count - 1 do
                local lane, column = map(thread % 32, r)
                assert.equal((thread // 32 * 32 + at + lane) << 16 | column, cells[thread][256 + r])
              end
            end
          end
        end)
      end
    end
  end

  for _, shape in ipairs { "32x32b", "16x64b", "16x128b", "16x256b" } do
    it(shape .. ".pack::16b counts columns in halves", function()
      local row = SHAPES[shape]
      local cells = loaded(shape, 4, 0, true)
      for thread = 0, 127 do
        for r = 0, 4 * row[1] - 1 do
          local _, column = row[4](thread % 32, r)
          assert.equal(2 * column | (2 * column + 1) << 16, cells[thread][256 + r])
        end
      end
    end)
  end
end)

describe("tcgen05.st", function()
  local function stored(shape, repeats, unpack)
    local count, lines = SHAPES[shape][1] * repeats, { "shl.b32 %r21, %r0, 16;" }
    for r = 0, count - 1 do lines[#lines + 1] = ("add.u32 %%v%d, %%r21, %d;"):format(r, r) end
    lines[#lines + 1] = fill("tcgen05.st.sync.aligned.$shape.x$n$unpack.b32 [%r7]$split, $from;",
      { shape = shape, n = repeats, unpack = unpack and ".unpack::16b" or "", from = registers(count),
        split = SHAPES[shape].split or "" })
    return tensor_memory { issue = "", setup = table.concat(lines, "\n") }[0]
  end

  for shape, row in pairs(SHAPES) do
    it(shape .. " stores what ld loads", function()
      local cells, touched = stored(shape, 4), 0
      for thread = 0, 127 do
        for r = 0, 4 * row[1] - 1 do
          local lane, column = row[4](thread % 32, r)
          assert.equal(thread << 16 | r, cells[thread // 32 * 32 + lane][column])
        end
      end
      for lane = 0, 127 do
        for column = 0, 511 do touched = touched + (cells[lane][column] ~= NAN and 1 or 0) end
      end
      assert.equal(128 * 4 * row[1], touched)
    end)
  end

  it("32x32b.unpack::16b: low half to column 2c, high half to column 2c + 1", function()
    local cells = stored("32x32b", 4, true)
    for thread = 0, 127 do
      for r = 0, 3 do
        assert.equal(r, cells[thread][2 * r] & 0xffff)
        assert.equal(thread, cells[thread][2 * r + 1] & 0xffff)
      end
    end
  end)
end)

-- ---- scale factors ----------------------------------------------------------------------------------

local SF_AT = 0x7000
local SF_DESC = 0x400800000000 -- SBO 128, no swizzle

-- The worked place of factor (77, 2), and all others by the formula of the 512-byte atom.
local function factor_offset(m, s) return m % 32 * 16 + m // 32 % 4 * 4 + s % 4 end

-- Copies `atoms` atoms at SF_AT + 512 a to columns `to` + 4 a.
local function copy_factors(from, to, atoms)
  local lines = {}
  for a = 0, atoms - 1 do
    lines[a + 1] = fill("mov.b64 %rd10, $desc;\n add.u32 %r20, %r6, $to;\n"
      .. "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r20], %rd10;",
      { desc = SF_DESC | (BASE + from + 512 * a) >> 4, to = to + 4 * a })
  end
  return table.concat(lines, "\n") .. "\n"
end

describe("scale factors", function()
  it("factor (77, 2): byte 218, then lanes 13, 45, 77, 109 of column 2, bits 16 to 23", function()
    assert.equal(218, factor_offset(77, 2))
    local image = new_image()
    image.bytes[SF_AT + 218] = 0xab
    local cells = tensor_memory { image = image, issue = copy_factors(SF_AT, 0, 1) }[0]
    local places = {}
    for lane = 0, 127 do
      for column = 0, 3 do
        if cells[lane][column] ~= 0 then
          places[#places + 1] = { lane, column, cells[lane][column] }
        end
      end
      assert.equal(NAN, cells[lane][4])
    end
    assert.same({ { 13, 2, 0xab << 16 }, { 45, 2, 0xab << 16 }, { 77, 2, 0xab << 16 }, { 109, 2, 0xab << 16 } }, places)
  end)

  it("factor (77, 2) of mxf8 is used by the third mma, with SFA id 2", function()
    local image = new_image()
    for i = 0, 4095 do image.bytes[i] = 0x38; image.bytes[IDENTITY_AT + i] = 0x38 end -- 1 in e4m3
    for i = 0, 511 do image.bytes[SF_AT + i] = 127; image.bytes[SF_AT + 512 + i] = 127 end
    image.bytes[SF_AT + 218] = 129
    local issue = { copy_factors(SF_AT, 256, 1), copy_factors(SF_AT + 512, 264, 1),
      fill("mov.b64 %rd10, $a;\n mov.b64 %rd11, $b;\n add.u32 %r21, %r6, 256;\n add.u32 %r22, %r6, 264;\n",
        { a = ROWS, b = IDENTITY }) }
    for id = 0, 3 do
      issue[#issue + 1] = fill("add.u32 %r20, %r6, $d;\n tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale"
        .. " [%r20], %rd10, %rd11, $idesc, [%r21], [%r22], 0;\n",
        { d = 32 * id, idesc = 0x08800000 | 32 >> 3 << 17 | id << 29 | id << 4 })
    end
    local cells = tensor_memory { image = image, issue = table.concat(issue) }[0]
    for id = 0, 3 do
      for m = 0, 127 do
        for n = 0, 31 do
          assert.equal(id == 2 and m == 77 and 128 or 32, f32(cells[m][32 * id + n]))
        end
      end
    end
  end)

  -- Every K-group of `block` elements has its own value in A; factors are powers of two in both operands.
  local function check(case)
    local image, groups, size = new_image(), case.k // case.block, case.k // case.block
    local function value(j) return ({ [0] = 1, 0.5, 2, 4 })[j] end
    local function byte(m, j) -- all elements of a byte are of one group
      local code = tc.dtype(case.dtype):encode(value(j))
      return m >= 0 and (case.dtype == "e2m1" and code * 17 or code)
    end
    for row = 0, 255 do
      for kb = 0, 31 do
        local at = row % 8 * 16 + row // 8 * 256 + kb // 16 * 128 + kb % 16
        local j = kb * groups // 32
        if row < 128 then image.bytes[at] = byte(row, j) end
        if row < case.n then image.bytes[IDENTITY_AT + at] = tc.dtype(case.dtype):encode(1) * (case.dtype == "e2m1" and 17 or 1) end
      end
    end
    local function exponent(row, s) return (row * 5 + row // 32 * 3 + s * 7) % 4 end
    for row = 0, 255 do
      for s = 0, 3 do
        local code = tc.dtype(case.scale):encode(2.0 ^ exponent(row, s))
        if row < 128 then image.bytes[SF_AT + factor_offset(row, s)] = code end
        image.bytes[SF_AT + 512 + row // 128 * 512 + factor_offset(row, s)] = code
      end
    end
    for _, id in ipairs(case.ids) do
      local issue = copy_factors(SF_AT, 256, 1) .. copy_factors(SF_AT + 512, 264, (case.n + 127) // 128)
        .. fill("mov.b64 %rd10, $a;\n mov.b64 %rd11, $b;\n add.u32 %r21, %r6, 256;\n add.u32 %r22, %r6, 264;\n"
        .. "tcgen05.mma.cta_group::1.kind::$kind.block_scale.scale_vec::$vec"
        .. " [%r6], %rd10, %rd11, $idesc, [%r21], [%r22], 0;\n", { a = ROWS, b = IDENTITY, kind = case.kind,
        vec = case.vec, idesc = case.idesc | case.n >> 3 << 17 | id << 29 | id << 4 })
      local cells = tensor_memory { image = image, issue = issue }[0]
      for m = 0, 127 do
        for n = 0, case.n - 1 do
          local sum = 0
          for j = 0, size - 1 do
            sum = sum + case.block * value(j) * 2.0 ^ (exponent(m, id + j) + exponent(n, id + j))
          end
          if f32(cells[m][n]) ~= sum then
            error(("id %d, D(%d, %d) is %s, expected %s"):format(id, m, n, f32(cells[m][n]), sum))
          end
        end
      end
    end
  end

  for _, case in ipairs {
    { name = "mxf8f6f4 1X: column m / 32, byte id", kind = "mxf8f6f4", vec = "1X", dtype = "e4m3", scale = "e8m0",
      k = 32, block = 32, n = 128, ids = { 0, 1, 2, 3 }, idesc = 0x08800000 },
    { name = "mxf8f6f4 1X, N 256: columns 0 .. 7 of B", kind = "mxf8f6f4", vec = "1X", dtype = "e4m3", scale = "e8m0",
      k = 32, block = 32, n = 256, ids = { 3 }, idesc = 0x08800000 },
    { name = "mxf4 2X: bytes id, id + 1", kind = "mxf4", vec = "2X", dtype = "e2m1", scale = "e8m0",
      k = 64, block = 32, n = 128, ids = { 0, 2 }, idesc = 0x08800480 },
    { name = "mxf4nvf4 2X: bytes id, id + 1", kind = "mxf4nvf4", vec = "2X", dtype = "e2m1", scale = "e8m0",
      k = 64, block = 32, n = 64, ids = { 0, 2 }, idesc = 0x08800480 },
    { name = "mxf4nvf4 4X, ue4m3: bytes 0 .. 3", kind = "mxf4nvf4", vec = "4X", dtype = "e2m1", scale = "e4m3",
      k = 64, block = 16, n = 256, ids = { 0 }, idesc = 0x08000480 },
  } do
    it(case.name, function() check(case) end)
  end
end)

-- ---- wgmma ------------------------------------------------------------------------------------------

-- Runs $body in a warpgroup with the image in shared memory and %v0 .. loaded from words[thread]; stores
-- %f0 .. of $steps steps to out[step][thread].
local WGMMA = [[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 words, .param .u64 out)
{
 .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b32 %v<4>; .reg .b32 %d<64>; .reg .b64 %rd<12>;
 .shared .align 1024 .b8 tile[$size];
 .shared .align 8 .b64 bar;
 mov.u32 %r0, %tid.x;
 mov.u32 %r1, tile;
 mov.u32 %r2, bar;
 setp.eq.u32 %p0, %r0, 0;
 ld.param.u64 %rd0, [image];
 ld.param.u64 %rd1, [words];
 ld.param.u64 %rd2, [out];
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 bar.sync 0;
 @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], $size;
 @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], $size, [%r2];
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra loaded;
 mad.wide.u32 %rd1, %r0, 16, %rd1;
 ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%rd1];
 mad.wide.u32 %rd2, %r0, $row, %rd2;
 $body
 ret;
}
]]

-- options: image, words (list of 4 words a thread), steps (list of instruction texts with $d), count
local function warpgroup(options)
  local body = {}
  for i, step in ipairs(options.steps) do
    local names = {}
    for r = 0, options.count - 1 do names[r + 1] = "%d" .. r end
    body[#body + 1] = "wgmma.fence.sync.aligned;\n" .. fill(step, { d = "{" .. table.concat(names, ",") .. "}" })
      .. "\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
    for r = 0, options.count - 1 do
      body[#body + 1] = ("st.global.b32 [%%rd2+%d], %%d%d;"):format(((i - 1) * 128 * options.count + r) * 4, r)
    end
  end
  local out = tc.zeros({ #options.steps, 128, options.count }, tc.u32)
  local words = {}
  for i = 1, 512 do words[i] = options.words and options.words[i] or 0 end
  emulate(fill(WGMMA, { size = SIZE, row = 4 * options.count, body = table.concat(body, "\n") }),
    { block = { 128 }, args = { options.image:array(SIZE), tc.from_table(words, tc.u32), out } })
  return out:totable()
end

local WGMMA_IDENTITY = IDENTITY & ~(1 << 46)

-- D's element i of a thread: row, column
local function accumulator_place(thread, i)
  local w, g, q = thread // 32, thread % 32 >> 2, thread % 4
  return 16 * w + g + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * q + (i & 1)
end

local WGMMA_FORMS = {
  f16 = { text = "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 $d, $a, $b, 0, 1, 1, $t, 0;", count = 8 },
  bf16 = { text = "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 $d, $a, $b, 0, 1, 1, $t, 0;", count = 8 },
  tf32 = { text = "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 $d, $a, $b, 0, 1, 1;", count = 4 },
  e4m3 = { text = "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 $d, $a, $b, 0, 1, 1;", count = 16 },
}

describe("a worked tile in shared memory, as A of wgmma:", function()
  for _, tile in ipairs(TILES) do
    if tile.wgmma then
      it(tile.name, function()
        local kind, form = KINDS[tile.dtype], WGMMA_FORMS[tile.dtype]
        local image, expected = numbered(tile)
        put_identity(image, IDENTITY_AT, tile.dtype, kind.k)
        local steps, places = {}, {}
        for half = 0, 1 do -- rows 0 .. 63, 64 .. 127
          local down = tile.major == "mn" and tile.lbo or 8 * (tile.wgmma >> 32 & 0x3fff) * 16
          for s = 0, tile.k // kind.k - 1 do
            steps[#steps + 1] = ("mov.b64 %%rd10, %d;\n mov.b64 %%rd11, %d;\n"):format(
              tile.wgmma + (half * down + s * tile.step >> 4), WGMMA_IDENTITY)
              .. fill(form.text, { a = "%rd10", b = "%rd11", t = tile.major == "mn" and 1 or 0, d = "$d" })
            places[#steps] = { 64 * half, s * kind.k }
          end
        end
        local found = {}
        for s, threads in ipairs(warpgroup { image = image, steps = steps, count = form.count }) do
          for thread, row in ipairs(threads) do
            for i, bits in ipairs(row) do
              local m, k = accumulator_place(thread - 1, i - 1)
              m, k = m + places[s][1], k + places[s][2]
              found[m] = found[m] or {}
              found[m][k] = f32(bits)
            end
          end
        end
        compare(expected, 128, tile.k, function(m, k) return found[m][k] end)
      end)
    end
  end
end)

describe("fragments of wgmma", function()
  local function half_codes(code) return code & 0xffff, code >> 16 end
  local function f16(code) return tc.f16:decode(code) end

  -- D[m][n] = m + 64 n with n < 16: A = (m, 1), B = (1, 64 n)
  local function accumulator(text, count)
    local image = new_image()
    for m = 0, 63 do put_row(image, 0, m, 2, { m, 1 }, "f16") end
    for n = 0, 15 do put_row(image, IDENTITY_AT, n, 2, { 1, 64 * n }, "f16") end
    return warpgroup { image = image, count = count, steps = {
      ("mov.b64 %%rd10, %d;\n mov.b64 %%rd11, %d;\n"):format(ROWS & ~(1 << 46), WGMMA_IDENTITY)
        .. fill(text, { a = "%rd10", b = "%rd11", d = "$d", t = 0 }) } }[1]
  end

  it("f32 D: register 6 of thread 77 is row 43, column 10", function()
    local threads = accumulator(WGMMA_FORMS.f16.text, 8)
    assert.equal(43 + 64 * 10, f32(threads[77 + 1][6 + 1]))
    for thread = 0, 127 do
      for i = 0, 7 do
        local m, n = accumulator_place(thread, i)
        assert.equal(m + 64 * n, f32(threads[thread + 1][i + 1]))
      end
    end
  end)

  it("f16 D: element i is half i & 1 of register i / 2", function()
    local threads = accumulator("wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 $d, $a, $b, 0, 1, 1, 0, 0;", 4)
    for thread = 0, 127 do
      for i = 0, 7 do
        local m, n = accumulator_place(thread, i)
        local low, high = half_codes(threads[thread + 1][i // 2 + 1])
        assert.equal(m + 64 * n, f16(i % 2 == 0 and low or high))
      end
    end
  end)

  -- elements of a thread, place(thread, i) -> row, k; register i / per, low bits first
  for _, case in ipairs {
    { "16-bit", "f16", 8, "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 $d, $a, $b, 0, 1, 1, 0;", 8,
      function(m, k) return 16 * m + k end,
      function(w, g, q, i) return 16 * w + g + 8 * (i >> 1 & 1), 2 * q + (i & 1) + 8 * (i >> 2) end },
    { "tf32", "tf32", 4, "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 $d, $a, $b, 0, 1, 1;", 4,
      function(m, k) return 8 * m + k end,
      function(w, g, q, i) return 16 * w + g + 8 * (i & 1), q + 4 * (i >> 1) end },
    { "8-bit", "e4m3", 16, "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 $d, $a, $b, 0, 1, 1;", 16,
      function(m, k) return (5 * m + k) % 17 end,
      function(w, g, q, i) return 16 * w + g + 8 * (i >> 2 & 1), 4 * q + (i & 3) + 16 * (i >> 3) end },
  } do
    local name, dtype, elements, text, count, value, place = table.unpack(case)
    it("A in registers, " .. name, function()
      local kind, image, words = KINDS[dtype], new_image(), {}
      put_identity(image, IDENTITY_AT, dtype, kind.k)
      local bits = tc.dtype(dtype).bits
      for thread = 0, 127 do
        for i = 0, elements - 1 do
          local m, k = place(thread // 32, thread % 32 >> 2, thread % 4, i)
          local word = thread * 4 + i * bits // 32 + 1
          words[word] = (words[word] or 0) | tc.dtype(dtype):encode(value(m, k)) << i * bits % 32
        end
      end
      local threads = warpgroup { image = image, words = words, count = count, steps = {
        ("mov.b64 %%rd11, %d;\n"):format(WGMMA_IDENTITY)
          .. fill(text, { a = "{%v0,%v1,%v2,%v3}", b = "%rd11", d = "$d" }) } }[1]
      for thread = 0, 127 do
        for i = 0, count - 1 do
          local m, k = accumulator_place(thread, i)
          assert.equal(value(m, k), f32(threads[thread + 1][i + 1]))
        end
      end
    end)
  end
end)

-- ---- ldmatrix and stmatrix --------------------------------------------------------------------------

-- One warp: image to shared memory, thread t's row is at 16 t; $body with %v0 .. %v3 in and out.
local function matrix_move(body, image, words)
  local text = fill([[
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 words, .param .u64 smem)
{
 .reg .b32 %r<8>; .reg .b32 %v<4>; .reg .b64 %rd<8>;
 .shared .align 1024 .b8 tile[512];
 mov.u32 %r0, %tid.x;
 mov.u32 %r1, tile;
 shl.b32 %r2, %r0, 4;
 add.u32 %r1, %r1, %r2;
 cvt.u64.u32 %rd3, %r2;
 ld.param.u64 %rd0, [image];
 ld.param.u64 %rd1, [words];
 ld.param.u64 %rd2, [smem];
 add.u64 %rd0, %rd0, %rd3;
 add.u64 %rd1, %rd1, %rd3;
 add.u64 %rd2, %rd2, %rd3;
 ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%rd0];
 st.shared.v4.b32 [%r1], {%v0,%v1,%v2,%v3};
 ld.global.v4.b32 {%v0,%v1,%v2,%v3}, [%rd1];
 bar.warp.sync 0xffffffff;
 $body
 bar.warp.sync 0xffffffff;
 st.global.v4.b32 [%rd1], {%v0,%v1,%v2,%v3};
 ld.shared.v4.b32 {%v0,%v1,%v2,%v3}, [%r1];
 st.global.v4.b32 [%rd2], {%v0,%v1,%v2,%v3};
 ret;
}
]], { body = body })
  local registers_array = tc.from_table(words or { 0 }, tc.u32, words and { 32, 4 } or { 1 })
  if not words then registers_array = tc.zeros({ 32, 4 }, tc.u32) end
  local smem = tc.zeros({ 512 }, tc.u8)
  emulate(text, { block = { 32 }, args = { image, registers_array, smem } })
  return registers_array:totable(), smem:tobytes()
end

local function bytes_image(byte)
  local list = {}
  for i = 0, 511 do list[i + 1] = string.char(byte(i // 16, i % 16) & 255) end
  return tc.frombytes(table.concat(list), tc.u8, { 512 })
end

describe("ldmatrix", function()
  -- u16 element c of row s (0 .. 31) is 8 s + c; matrix j has rows 8 j ..
  local halves = bytes_image(function(s, b) return 8 * s + b // 2 >> 8 * (b % 2) end)

  for _, count in ipairs { 1, 2, 4 } do
    local names = table.concat({ "%v0", "%v1", "%v2", "%v3" }, ",", 1, count)
    it("m8n8.x" .. count, function()
      local found = matrix_move(("ldmatrix.sync.aligned.m8n8.x%d.shared.b16 {%s}, [%%r1];"):format(count, names), halves)
      for t = 0, 31 do
        local g, q = t >> 2, t & 3
        for j = 0, count - 1 do
          local at = 8 * (8 * j + g)
          assert.equal(at + 2 * q | (at + 2 * q + 1) << 16, found[t + 1][j + 1])
        end
      end
    end)
    it("m8n8.trans.x" .. count, function()
      local found = matrix_move(("ldmatrix.sync.aligned.m8n8.x%d.trans.shared.b16 {%s}, [%%r1];"):format(count, names),
        halves)
      for t = 0, 31 do
        local g, q = t >> 2, t & 3
        for j = 0, count - 1 do
          assert.equal(8 * (8 * j + 2 * q) + g | (8 * (8 * j + 2 * q + 1) + g) << 16, found[t + 1][j + 1])
        end
      end
    end)
  end

  for _, count in ipairs { 1, 2 } do
    it("m16n16.trans.b8.x" .. count, function()
      local function byte(s, c) return s < 16 and 16 * s + c or 255 - 16 * (s - 16) - c end
      local names = table.concat({ "%v0", "%v1", "%v2", "%v3" }, ",", 1, 2 * count)
      local found = matrix_move(("ldmatrix.sync.aligned.m16n16.x%d.trans.shared.b8 {%s}, [%%r1];"):format(count, names),
        bytes_image(byte))
      for t = 0, 31 do
        local g, q = t >> 2, t & 3
        for matrix = 0, count - 1 do
          for r = 0, 1 do
            for j = 0, 3 do
              assert.equal(byte(16 * matrix + 4 * q + j, g + 8 * r), found[t + 1][2 * matrix + r + 1] >> 8 * j & 255)
            end
          end
        end
      end
    end)
  end

  for _, case in ipairs {
    { "b8x16.b4x16_p64", 4 }, { "b8x16.b6x16_p32", 6 },
  } do
    local form, bits = table.unpack(case)
    it("m8n16." .. form, function()
      local function code(s, c) return (5 * s + 3 * c) % (1 << bits) end
      local image = bytes_image(function(s, b)
        local packed = 0
        for i = 0, bits * 2 * 8 - 1 do -- the bits of byte b of the packed row
          local bit = 8 * b + (i - 8 * b)
          if bit // 8 == b then packed = packed | (code(s, bit // bits) >> bit % bits & 1) << bit % 8 end
        end
        return b < 2 * bits and packed or 0xee
      end)
      local found = matrix_move("ldmatrix.sync.aligned.m8n16.x4.shared." .. form .. " {%v0,%v1,%v2,%v3}, [%r1];", image)
      for t = 0, 31 do
        for j = 0, 3 do
          for b = 0, 3 do
            assert.equal(code(8 * j + (t >> 2), 4 * (t & 3) + b), found[t + 1][j + 1] >> 8 * b & 255)
          end
        end
      end
    end)
  end
end)

describe("stmatrix", function()
  local blank = bytes_image(function() return 0xee end)
  local words = {}
  for t = 0, 31 do -- halves 2 i and 2 i + 1 of the warp
    for j = 0, 3 do words[4 * t + j + 1] = 2 * (4 * t + j) | (2 * (4 * t + j) + 1) << 16 end
  end

  it("m8n8.x4 and .trans are the inverses", function()
    for _, trans in ipairs { false, true } do
      local _, smem = matrix_move(("stmatrix.sync.aligned.m8n8.x4%s.shared.b16 [%%r1], {%%v0,%%v1,%%v2,%%v3};")
        :format(trans and ".trans" or ""), blank, words)
      for t = 0, 31 do
        local g, q = t >> 2, t & 3
        for j = 0, 3 do
          for half = 0, 1 do
            local row, column = g, 2 * q + half
            if trans then row, column = column, row end
            assert.equal(2 * (4 * t + j) + half, (string.unpack("<I2", smem, (8 * j + row) * 16 + 2 * column + 1)))
          end
        end
      end
    end
  end)

  it("m16n8.trans.b8: byte J to row 2 q + (J & 1), byte g + 8 (J >> 1)", function()
    local codes = {}
    for t = 0, 31 do
      for j = 0, 3 do
        local word = 0
        for b = 0, 3 do word = word | ((t * 4 + b + 37 * j) & 255) << 8 * b end
        codes[4 * t + j + 1] = word
      end
    end
    local _, smem = matrix_move("stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r1], {%v0,%v1,%v2,%v3};", blank, codes)
    for t = 0, 31 do
      for j = 0, 3 do
        for b = 0, 3 do
          assert.equal((t * 4 + b + 37 * j) & 255,
            smem:byte((8 * j + 2 * (t & 3) + (b & 1)) * 16 + (t >> 2) + 8 * (b >> 1) + 1))
        end
      end
    end
  end)
end)
