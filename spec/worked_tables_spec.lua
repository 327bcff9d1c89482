-- The worked examples of shared memory run as PTX: which byte an element of a tile is, for the matrix
-- descriptors of tcgen05 and for the boxes of TMA.  Numbers in tables are those of the documents.
local tc = require "tcmma"
local worked = require "worked_tables"

local BASE, fill, emulate = worked.BASE, worked.fill, worked.emulate
local f32, new_image = worked.f32, worked.new_image
local put_identity, IDENTITY_AT, IDENTITY = worked.put_identity, worked.IDENTITY_AT, worked.IDENTITY
local SIZE, tensor_memory = worked.SIZE, worked.tensor_memory
local mma, KINDS, TRANSPOSE_A = worked.mma, worked.KINDS, worked.TRANSPOSE_A
local TRANSPOSE_B, TILES = worked.TRANSPOSE_B, worked.TILES
local numbered, compare = worked.numbered, worked.compare

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
      -- rows shorter than what the swizzle spans begin a span each, as on an H200
      local span = math.max(width, tonumber(swizzle:match "^%d+" or 0))
      for i = 0, 64 * width - 1 do
        local a = i // width * span + i % width
        local address = a ~ (a >> shift & mask) << to
        assert.equal(all:byte(i + 1), image:byte(address + 1), ("byte 0x%X"):format(i))
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
