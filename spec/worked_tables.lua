-- Shared by the specs of worked examples: images of shared memory, a kernel around tcgen05, the tiles.
local assert = require "luassert"
local tc = require "tcmma"
local frame = require "tcgen05_frame"

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

-- In front of `setup`: %r7 the address of the warp's lanes, %r8 the lane.
local SETUP = "and.b32 %r8, %r0, 31;\n shl.b32 %r7, %r1, 21;\n add.u32 %r7, %r7, %r6;\n "

-- Returns cells[cta][lane][column], all from 0.
local function tensor_memory(options)
  local group = options.group or 1
  local images = options.images or { options.image or new_image() }
  local parts = {}
  for i = 1, group do parts[i] = images[i]:array(SIZE):tobytes() end
  local image = tc.frombytes(table.concat(parts), tc.u8, { group * SIZE })
  local out = tc.full({ group, 128, 512 }, 0, tc.u32)
  emulate(frame.text { bytes = SIZE, group = group, body = options.issue,
    setup = SETUP .. (options.setup or "") .. "\n tcgen05.wait::st.sync.aligned;" },
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

-- Rows of 16-byte units without swizzle, as put_identity; `units` a row.
local function put_row(image, at, row, units, values, dtype)
  local bytes = tc.dtype(dtype).bits // 8
  for i, value in ipairs(values) do
    local kb = (i - 1) * bytes
    image:put(at + row % 8 * 16 + row // 8 * units * 128 + kb // 16 * 128 + kb % 16, value, dtype)
  end
end

-- Rows of 32 bytes at the base of the image
local ROWS = 0x401000080040

return {
  BASE = BASE,
  NAN = NAN,
  fill = fill,
  emulate = emulate,
  f32 = f32,
  new_image = new_image,
  put_identity = put_identity,
  put_row = put_row,
  IDENTITY_AT = IDENTITY_AT,
  IDENTITY = IDENTITY,
  ROWS = ROWS,
  SIZE = SIZE,
  tensor_memory = tensor_memory,
  mma = mma,
  KINDS = KINDS,
  TRANSPOSE_A = TRANSPOSE_A,
  TRANSPOSE_B = TRANSPOSE_B,
  TILES = TILES,
  numbered = numbered,
  compare = compare,
}
