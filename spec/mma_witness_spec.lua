-- The constants of emitted MMAs are those that other compilers (spec/witness) have for the same tile: opcode,
-- instruction descriptors, the high word of SMEM descriptors, and the steps of their start addresses along K.
-- The low word differs in one field that no K-major swizzled operand reads: the leading dimension's offset is 1
-- here, as documents write it, and 0 there.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local mma = require "mma_kernels"
local sparse = require "sparse_kernels"
local collective = require "collective_kernels"
local json = require "dkjson"
local process = require "process"

local directory = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "witness/"

local function read(name)
  local file = assert(io.open(directory .. name .. ".ptx"))
  local text = file:read "a"
  file:close()
  return text
end

-- Distinct values, in ascending order.
local function set(list)
  local seen, out = {}, {}
  for _, x in ipairs(list) do
    if not seen[x] then out[#out + 1] = x end
    seen[x] = true
  end
  table.sort(out)
  return out
end

local function number(text)
  return math.tointeger(tonumber(text)) or assert(math.tointeger(text), text)
end

-- What a text's MMAs of one opcode are made of.
local function constants(text, opcode)
  local values, high, step, codes, columns = {}, {}, {}, {}, {}
  for register, value in text:gmatch "mov%.b32%s+(%%r%d+), (%w+);" do
    values[register] = math.tointeger(tonumber(value))
  end
  for name, value in text:gmatch "(%w+)%.[bs]64%s+%%rd%d+, %%rd%d+, (%d+);" do
    local x = number(value)
    if name == "or" or name == "add" then
      local word = x >> 32
      if word >> 14 & 7 == 1 then high[#high + 1] = word end
      if word == 0 or word >> 14 & 7 == 1 then step[#step + 1] = x & 0xffff end
    end
  end
  for _, value in pairs(values) do
    if value >> 30 == 1 and value >> 14 & 7 == 1 and value & 0xf == 0 then high[#high + 1] = value end
  end
  for line in text:gmatch "[^\n]+" do
    if line:find(opcode, 1, true) then
      local operands = line:match "tcgen05%.mma%S*%s+(.*)"
      local code = operands:match "(0x%x+)"
      if not code then
        local after = operands:gsub("%b[]", "")
        code = after:match ".-(%%r%d+)"
      end
      codes[#codes + 1] = values[code] or number(code)
      local column = operands:match "^%[[^%]]*%],%s*%[[^%]]-(%d+)%s*%]"
      columns[#columns + 1] = column and number(column) or nil
    end
  end
  columns = set(columns)
  for i = #columns, 1, -1 do columns[i] = columns[i] - columns[1] end
  return { high = set(high), step = set(step), codes = set(codes), columns = columns }
end

-- The steps of one tile; what else adds to descriptors in a pipelined kernel is left out.
local function same(title, witness, opcode, o, destination)
  it(title, function()
    o.b_transposed, o.d = o.b_transposed ~= false, tc.f32
    local ours = constants(mma.tile(o):ptx{ target = "sm_100a" }, opcode)
    local theirs = constants(read(witness), opcode .. (destination or ""))
    assert.is_true(#ours.codes > 0)
    for _, code in ipairs(ours.codes) do assert.is_truthy(table.concat(theirs.codes, " "):find(code, 1, true)) end
    assert.same(theirs.high, ours.high)
    assert.same(theirs.columns, ours.columns)
    local known = {}
    for _, step in ipairs(theirs.step) do known[step] = true end
    for _, step in ipairs(ours.step) do assert.is_true(known[step], "step " .. step) end
  end)
end

-- Boxes, swizzles and element types of A's and B's tensor maps, and the bytes of one step, which are one
-- expect_tx there, and one for each copy here.
local function same_copies(title, witness, o)
  it("copies of " .. title, function()
    o.b_transposed, o.d = true, tc.f32
    local kernel, folder = mma.tile(o), process.folder()
    kernel:export(folder .. "/tile", { target = "sm_100a" })
    local ours = json.decode(assert(io.open(folder .. "/tile.json")):read "a")
    process.remove(folder)
    local theirs = json.decode(assert(io.open(directory .. witness .. ".json")):read "a")
    local maps, bytes = {}, 0
    for _, p in ipairs(theirs.params) do
      if p.kind == "tensormap" then maps[#maps + 1] = p end
    end
    for i = 1, 2 do
      local map
      for _, p in ipairs(ours.params) do map = p.kind == "tensormap" and p.argument == i - 1 and p or map end
      assert.same(maps[i].box, map.box)
      assert.equal(maps[i].swizzle, map.swizzle_bytes .. "B")
      assert.equal(({ u8 = 0, bf16 = 9 })[maps[i].dtype], map.type)
    end
    for n in kernel:ptx{ target = "sm_100a" }:gmatch "expect_tx[^\n]*, (%d+);" do bytes = bytes + tonumber(n) end
    assert.equal(theirs.expect_tx[1].bytes, bytes)
  end)
end

-- Registers, spills and barriers, as the assembler counts them for both.
local function resources(text)
  local module = tc.ptx(text, { target = "sm_100a" })
  local info = module:kernel(module:kernels()[1].name):info()
  return info.registers and info, info.assembler_missing
end

local function ours(kernel) return resources(kernel:ptx{ target = "sm_100a" }) end

-- Where witnesses have the tile: the leanest of them.  `barriers` names those whose threads share the work in the same
-- way, in one role or in several: barriers are for that.
local function no_larger(title, o)
  it(title, function()
    local mine, why = ours(o.kernel)
    if not mine then return pending(why) end
    local registers, barriers = math.huge, math.huge
    for _, name in ipairs(o.witnesses) do registers = math.min(registers, resources(read(name)).registers) end
    for _, name in ipairs(o.barriers) do barriers = math.min(barriers, resources(read(name)).barriers) end
    assert.is_true(mine.registers <= 1.1 * registers, mine.registers .. " registers, the leanest has " .. registers)
    assert.is_true(mine.barriers <= barriers, mine.barriers .. " barriers, the leanest has " .. barriers)
    assert.equal(0, mine.spill_stores + mine.spill_loads + mine.stack)
  end)
end

describe("No larger than the leanest of other compilers':", function()
  local bf16 = { "gluon_sm100_blocked_bf16", "triton_sm100_gemm_128x256x64_sub_w4" }
  local several = { "gluon_sm100_ws_fp8" } -- roles

  no_larger("bf16, 128 x 256 x 64, unpipelined", { witnesses = bf16, barriers = bf16,
    kernel = mma.tile{ m = 128, n = 256, k = 64, a = tc.bf16, b = tc.bf16, d = tc.f32, b_transposed = true } })
  no_larger("bf16, 128 x 256 x 64", { witnesses = bf16, barriers = several,
    kernel = kernels.matmul{ m = 256, n = 512, k = 384, dtype = tc.bf16, tm = 128, tn = 256, tk = 64, stages = 4 } })
  no_larger("e4m3, 128 x 128 x 128", { witnesses = several, barriers = several,
    kernel = kernels.matmul{ m = 256, n = 256, k = 512, dtype = tc.e4m3, tm = 128, tn = 128, tk = 128, stages = 3 } })
  no_larger("mxfp8, 128 x 128 x 128", { witnesses = { "triton_sm100_scaled_mxfp8" }, barriers = several,
    kernel = mma.pipelined{ a = tc.e4m3, scale = tc.e8m0, block = 32, tk = 128 } })
  -- Attention has two tiles of 128 x 128 more, and spills.  A role's barrier is its own, even where the role is the
  -- block: one more than the witness has.
  no_larger("bf16, A in tensor memory, 128 x 128 x 128", { witnesses = { "triton_sm100_attn_d128" }, barriers = several,
    kernel = mma.tile{ m = 128, n = 128, k = 128, a = tc.bf16, b = tc.bf16, d = tc.f32, a_tmem = "store" } })
end)

-- Kinds that no witness has: no spill, no more barriers, and at most a tenth more registers than the f16 kernel of the
-- same tile, of the same roles and epilogue, which the comparisons above hold.
describe("No larger than the f16 kernel of the tile:", function()
  local function bound(title, f16, kernel, more_barriers)
    it(title, function()
      local mine, why = ours(kernel)
      if not mine then return pending(why) end
      local base = ours(f16)
      assert.is_true(mine.registers <= 1.1 * base.registers, mine.registers .. " registers, f16 " .. base.registers)
      assert.is_true(mine.barriers <= base.barriers + (more_barriers or 0),
        mine.barriers .. " barriers, f16 " .. base.barriers)
      assert.equal(0, mine.spill_stores + mine.spill_loads + mine.stack)
    end)
  end
  local function tile(o)
    o.m, o.n, o.b_transposed, o.b = 128, 256, true, o.b or o.a
    o.d = o.d or (o.a.kind == "float" and tc.f32 or tc.i32)
    return mma.tile(o)
  end
  local f16 = tile{ k = 64, a = tc.f16 }

  bound("i8", f16, tile{ k = 128, a = tc.i8 })
  bound("u8 with i8", f16, tile{ k = 128, a = tc.u8, b = tc.i8 })
  bound("tf32", f16, tile{ k = 32, a = tc.f32 })
  bound("e4m3 with e5m2 into f16", f16, tile{ k = 128, a = tc.e4m3, b = tc.e5m2, d = tc.f16 })
  bound("fp6", f16, tile{ k = 128, a = tc.e2m3, b = tc.e3m2 })
  bound("fp4 in bytes", f16, tile{ k = 128, a = tc.e2m1, padded = true })
  bound("mxfp8", f16, tile{ k = 128, a = tc.e4m3, scale = tc.e8m0, block = 32 })
  bound("mxfp4", f16, tile{ k = 256, a = tc.e2m1, scale = tc.e8m0, block = 32 })
  bound("nvfp4", f16, tile{ k = 256, a = tc.e2m1, scale = tc.e4m3, block = 16 })

  local function ring(dtype, scale, block, tk)
    return mma.pipelined{ a = dtype, scale = scale, block = block, tk = tk }
  end
  local mxfp8 = ring(tc.e4m3, tc.e8m0, 32, 128) -- held above
  bound("nvfp4 in a ring", mxfp8, ring(tc.e2m1, tc.e4m3, 16, 256))
  bound("mxfp4 in a ring", mxfp8, ring(tc.e2m1, tc.e8m0, 32, 256))

  for _, o in ipairs{ { a = "f16" }, { a = "f32", k = 128, tile = 64 }, { a = "e4m3" }, { a = "i8" },
                      { a = "e2m1", pattern = "4:8", scale = "e4m3", block = 32, k = 512, tile = 256 } } do
    o.n, o.k, o.tile = 256, o.k or 256, o.tile or 128
    bound("sparse " .. o.a, f16, sparse.kernel(o))
  end

  -- Here one role issues in the leader and stores in both CTAs: it meets at a barrier of its own behind the branch.
  local function pair(title, o)
    o.n, o.b_transposed, o.b, o.target = 256, true, o.b or o.a, "sm_100a"
    o.d = o.d or (o.a.kind == "float" and tc.f32 or tc.i32)
    bound(title .. ", a pair", f16, collective.tile(o), 1)
  end
  pair("bf16", { k = 64, a = tc.bf16 })
  pair("tf32", { k = 32, a = tc.f32 })
  pair("e4m3", { k = 128, a = tc.e4m3 })
  pair("i8", { k = 128, a = tc.i8 })
  pair("fp6 with fp4", { k = 128, a = tc.e2m3, b = tc.e2m1, padded = true })
  pair("mxfp8", { k = 128, a = tc.e4m3, scale = tc.e8m0, block = 32 })
  pair("nvfp4", { k = 256, a = tc.e2m1, scale = tc.e4m3, block = 16 })
  pair("sparse f16", { k = 128, a = tc.f16, sparse = 64 })
  pair("bf16 of 64 rows", { rows = 64, k = 64, a = tc.bf16 })
  bound("bf16, a pair with roles and a ring", f16,
    collective.matmul{ dtype = tc.bf16, b_transposed = true, stages = 4, target = "sm_100a" })
end)

-- docs/hardware.md and collective_constants_spec say so.  A witness of a pair or of another kind belongs into the
-- comparisons here.
describe("The witnesses", function()
  it("multiply with these kinds, in one CTA", function()
    local list = assert(io.popen("ls " .. directory .. "*_sm100_*.ptx"))
    local found = {}
    for path in list:lines() do
      local file = assert(io.open(path))
      for name in file:read "a":gmatch "tcgen05%.mma%S*" do found[#found + 1] = name end
      file:close()
    end
    list:close()
    assert.same({ "tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.cta_group::1.kind::f8f6f4",
      "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X" }, set(found))
  end)
end)

describe("Constants of another compiler:", function()
  same_copies("bf16, 128 x 256 x 64, unpipelined", "gluon_sm100_blocked_bf16",
    { m = 128, n = 256, k = 64, a = tc.bf16, b = tc.bf16 })
  same_copies("bf16, 128 x 256 x 64", "triton_sm100_gemm_128x256x64_sub_w4",
    { m = 128, n = 256, k = 64, a = tc.bf16, b = tc.bf16 })
  same_copies("e4m3, 128 x 128 x 128", "gluon_sm100_ws_fp8", { m = 128, n = 128, k = 128, a = tc.e4m3, b = tc.e4m3 })

  local f16 = "tcgen05.mma.cta_group::1.kind::f16"
  same("bf16, 128 x 256 x 64, unpipelined", "gluon_sm100_blocked_bf16", f16,
    { m = 128, n = 256, k = 64, a = tc.bf16, b = tc.bf16 })
  same("bf16, 128 x 256 x 64", "triton_sm100_gemm_128x256x64_sub_w4", f16,
    { m = 128, n = 256, k = 64, a = tc.bf16, b = tc.bf16 })
  same("e4m3, 128 x 128 x 128", "gluon_sm100_ws_fp8", "tcgen05.mma.cta_group::1.kind::f8f6f4",
    { m = 128, n = 128, k = 128, a = tc.e4m3, b = tc.e4m3 })
  same("bf16, A in tensor memory, B stored as (K, N)", "triton_sm100_attn_d128", f16,
    { m = 128, n = 128, k = 128, a = tc.bf16, b = tc.bf16, a_tmem = "store", b_transposed = false },
    " [ %r1917 + 0 ]")
  same("mxfp8, 128 x 128 x 128", "triton_sm100_scaled_mxfp8",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.scale_vec::1X",
    { m = 128, n = 128, k = 128, a = tc.e4m3, b = tc.e4m3, scale = tc.e8m0, block = 32 })
end)
