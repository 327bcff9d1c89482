-- The constants of a pair's matmul.  No kernel of spec/witness is one of two CTAs (mma_witness_spec holds that), so
-- they are held to numbers worked out by hand: instruction descriptors field by field (D, A and B types, N / 8 at bit
-- 17, M / 16 at bit 24, both of the pair), published ones where there are, and the bytes and masks of the recipe of a
-- 256 x 256 x 64 bf16 matmul: 65536 bytes a stage at the leader's barrier, commits to both CTAs (mask 0b11).
local tc = require "tcmma"
local collective = require "collective_kernels"
local mma = require "mma_kernels"

local M256, M128, N256, N128 = 0x10000000, 0x08000000, 0x00400000, 0x00200000

local function text_of(o)
  if o.b_transposed == nil then o.b_transposed = true end
  o.d = o.d or tc.f32
  local kernel = collective.tile(o)
  return kernel:ptx{ target = "sm_100a" }, kernel
end

-- Numbers of the text in the places of the pattern, in order.
local function numbers(text, pattern)
  local list = {}
  for n in text:gmatch(pattern) do list[#list + 1] = math.tointeger(tonumber(n)) end
  return list
end

local function sum(list)
  local n = 0
  for _, x in ipairs(list) do n = n + x end
  return n
end

local expect_tx = "expect_tx[^\n]*, (%d+);"

describe("The instruction descriptor of a pair", function()
  local function is(title, expected, o)
    it(title, function()
      local text, kernel = text_of(o)
      assert.same(expected, mma.descriptors(kernel))
      for name in text:gmatch "tcgen05%.mma%S*" do assert.is_truthy(name:find("cta_group::2", 1, true)) end
    end)
  end

  -- published: bf16 and nvfp4, M 256, N 256
  is("bf16, 256 x 256", { 0x10400490 }, { n = 256, k = 64, a = tc.bf16, b = tc.bf16 })
  is("nvfp4, 256 x 256", { 0x10400480 }, { n = 256, k = 256, a = tc.e2m1, b = tc.e2m1, scale = tc.e4m3, block = 16 })
  -- published of one CTA, 128 x 128: tf32 0x08200910, e4m3 0x08200010, s8 0x082004a0, u8 0x08200020
  is("tf32, 256 x 128", { M256 + N128 + 0x910 }, { n = 128, k = 32, a = tc.f32, b = tc.f32 })
  is("e4m3, 256 x 128", { M256 + N128 + 0x010 }, { n = 128, k = 128, a = tc.e4m3, b = tc.e4m3 })
  is("s8, 256 x 128", { M256 + N128 + 0x4a0 }, { n = 128, k = 128, a = tc.i8, b = tc.i8, d = tc.i32 })
  is("u8, 256 x 256", { M256 + N256 + 0x020 }, { n = 256, k = 128, a = tc.u8, b = tc.u8, d = tc.i32 })
  -- mxf8 0x08a00000, with the ids 2 of both scales 0x48a00020; mxf4 0x08a00480
  is("mxfp8, 256 x 256", { 0x10c00000, 0x30c00010, 0x50c00020, 0x70c00030 },
    { n = 256, k = 128, a = tc.e4m3, b = tc.e4m3, scale = tc.e8m0, block = 32 })
  is("mxfp4, 256 x 256", { 0x10c00480, 0x50c004a0 },
    { n = 256, k = 256, a = tc.e2m1, b = tc.e2m1, scale = tc.e8m0, block = 32 })
  is("fp6 and fp4 in bytes, 256 x 256", { M256 + N256 + 0x1590 },
    { n = 256, k = 128, a = tc.e2m3, b = tc.e2m1, padded = true })
  is("bf16, 128 x 256", { M128 + N256 + 0x490 }, { rows = 64, n = 256, k = 64, a = tc.bf16, b = tc.bf16 })
  is("f16 into f16, 128 x 128", { M128 + N128 }, { rows = 64, n = 128, k = 64, a = tc.f16, b = tc.f16, d = tc.f16 })
  is("bf16, both stored with K first", { M256 + N256 + 0x490 + 0x18000 },
    { n = 256, k = 64, a = tc.bf16, b = tc.bf16, a_transposed = true, b_transposed = false })
  -- bit 2: sparse; bits 0 and 1: which of two columns of metadata
  is("sparse f16, 256 x 256", { M256 + N256 + 0x14, M256 + N256 + 0x15 },
    { n = 256, k = 128, a = tc.f16, b = tc.f16, sparse = 64 })
  is("sparse e4m3, 256 x 256", { M256 + N256 + 0x14 }, { n = 256, k = 256, a = tc.e4m3, b = tc.e4m3, sparse = 128 })
end)

describe("What a pair's barriers get", function()
  it("is the bytes of both CTAs at the leader's barrier, of every kind", function()
    -- 32 KiB a CTA: 128 rows of A and 128 columns of B, 128 bytes along K each
    for _, o in ipairs{
      { k = 64, a = tc.bf16 }, { k = 32, a = tc.f32 }, { k = 128, a = tc.e4m3 }, { k = 128, a = tc.i8, d = tc.i32 },
    } do
      o.n, o.b = 256, o.a
      assert.equal(65536, sum(numbers(text_of(o), expect_tx)))
    end
    -- with factors of 128 rows of A of each CTA, and of all 256 columns in both: blocks * (128 + 256) bytes a CTA
    assert.equal(65536 + 2 * 4 * 384, sum(numbers(text_of{ n = 256, k = 128, a = tc.e4m3, b = tc.e4m3,
      scale = tc.e8m0, block = 32 }, expect_tx)))
    assert.equal(65536 + 2 * 16 * 384, sum(numbers(text_of{ n = 256, k = 256, a = tc.e2m1, b = tc.e2m1,
      scale = tc.e4m3, block = 16 }, expect_tx)))
    -- half of A's rows; half of A's elements, and 64 entries of 2 bits a row
    assert.equal(49152, sum(numbers(text_of{ rows = 64, n = 256, k = 64, a = tc.bf16, b = tc.bf16 }, expect_tx)))
    assert.equal(2 * (16384 + 32768 + 128 * 64 * 2 // 8), sum(numbers(text_of{ n = 256, k = 128, a = tc.bf16,
      b = tc.bf16, sparse = 64 }, expect_tx)))
  end)

  it("is expected by the leader alone, and told by both CTAs' copies", function()
    local text = collective.matmul{ dtype = tc.bf16, b_transposed = true }:ptx{ target = "sm_100a" }
    assert.same({ 32768, 32768 }, numbers(text, expect_tx))
    local guard = text:match "@(%%p%d+) mbarrier%.arrive%.expect_tx"
    local rank = text:match("setp%.eq%.u32 %" .. guard .. ", (%%r%d+), 0;")
    assert.is_truthy(text:find("mov.u32 " .. rank .. ", %cluster_ctaid.x;", 1, true)) -- in a cluster of one axis
    local head = "cp.async.bulk.tensor.2d.shared::cluster.global.tile."
    for copy in text:gmatch "cp%.async%.bulk%.tensor%S*" do
      assert.equal(head .. "mbarrier::complete_tx::bytes.cta_group::2", copy)
    end
  end)

  it("is its own half where each CTA loads to its own barrier", function()
    local text = collective.matmul{ dtype = tc.bf16, b_transposed = true, copies = "own" }:ptx{ target = "sm_100a" }
    assert.same({ 16384, 16384 }, numbers(text, expect_tx))
    assert.is_nil(text:find("@%%p%d+ mbarrier%.arrive%.expect_tx"))
  end)

  it("comes from commits to ranks 0 and 1, and from multicasts to both", function()
    local text = collective.matmul{ dtype = tc.bf16, b_transposed = true }:ptx{ target = "sm_100a" }
    local register = text:match "mov%.b16 (%%h%d+), 3;"
    local commits = 0
    for mask in text:gmatch "tcgen05%.commit%.cta_group::2%S*%.multicast::cluster%.b64 %[[^\n]*%], (%%h%d+);" do
      assert.equal(register, mask)
      commits = commits + 1
    end
    assert.equal(2, commits) -- a stage, the tile
    -- B's factors, which both CTAs need: each loads a part for both
    text = text_of{ n = 256, k = 128, a = tc.e4m3, b = tc.e4m3, scale = tc.e8m0, block = 32 }
    register = text:match "mov%.b16 (%%h%d+), 3;"
    local pattern = "complete_tx::bytes%.multicast::cluster%.cta_group::2 %[[^\n]*, (%%h%d+);"
    local copies = 0
    for mask in text:gmatch(pattern) do
      assert.equal(register, mask)
      copies = copies + 1
    end
    assert.is_true(copies > 0)
  end)
end)

describe("The operands of a pair", function()
  it("have each CTA's descriptors: 128-byte swizzle, 8 rows 1024 bytes apart, 32 bytes a step", function()
    local text = text_of{ n = 256, k = 64, a = tc.bf16, b = tc.bf16 }
    local high, steps = {}, {}
    local first
    for low_high, name in text:gmatch "mov%.b64 (%%rd%d+), {%%r%d+, (%%r%d+)};" do
      first = first or low_high
      high[tonumber(text:match("mov%.b32 %" .. name .. ", (0x%x+);"))] = true
    end
    for value in text:gmatch("add%.s64 %%rd%d+, %" .. first .. ", (%d+);") do steps[tonumber(value)] = true end
    assert.same({ [0x40004040] = true }, high)
    assert.same({ [2] = true, [4] = true, [6] = true }, steps)
  end)
end)
