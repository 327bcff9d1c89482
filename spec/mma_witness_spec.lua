-- The constants of emitted MMAs are those that other compilers (spec/witness) have for the same tile: opcode,
-- instruction descriptors, the high word of SMEM descriptors, and the steps of their start addresses along K.
-- The low word differs in one field that no K-major swizzled operand reads: the leading dimension's offset is 1
-- here, as documents write it, and 0 there.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local mma = require "mma_kernels"
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

-- Registers, spills and the roles' barriers of a pipelined matmul of the tile; the block's own barrier comes to them.
local function no_larger(title, witness, kernel)
  it("resources of " .. title, function()
    local ours, why = kernel:info{ target = "sm_100a" }
    local module = tc.ptx(read(witness), { target = "sm_100a" })
    local theirs = module:kernel(module:kernels()[1].name):info()
    if not ours or not theirs or not ours.registers or not theirs.registers then
      return pending(why or "no assembler")
    end
    assert.is_true(ours.registers <= 1.1 * theirs.registers, ours.registers .. " registers")
    assert.equal(0, ours.spill_stores + ours.spill_loads)
    assert.is_true(ours.named_barriers <= theirs.barriers)
  end)
end

describe("No larger than another compiler's:", function()
  no_larger("bf16, 128 x 256 x 64", "triton_sm100_gemm_128x256x64_sub_w4",
    kernels.matmul{ m = 256, n = 512, k = 384, dtype = tc.bf16, tm = 128, tn = 256, tk = 64, stages = 4 })
  no_larger("e4m3, 128 x 128 x 128", "gluon_sm100_ws_fp8",
    kernels.matmul{ m = 256, n = 256, k = 512, dtype = tc.e4m3, tm = 128, tn = 128, tk = 128, stages = 3 })
  no_larger("mxfp8, 128 x 128 x 128", "triton_sm100_scaled_mxfp8",
    mma.pipelined{ a = tc.e4m3, scale = tc.e8m0, block = 32, tk = 128 })
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
