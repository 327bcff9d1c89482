-- Every bit of the descriptors and tensor maps of three kernels of other compilers (spec/witness), inverted alone: the
-- result is another one, or the emulator objects.  The bits that do neither are those of spec/bit_flip_ignored.lua.
local tc = require "tcmma"
local witness = require "witness_kernels"
local mutation = require "bit_flip_mutation"
local ignored = require "bit_flip_ignored"

local NAN = 0 / 0
local UNTOUCHED = -999

-- ---- fields -----------------------------------------------------------------------------------------

-- name, number of bits; from bit 0 on
local TCGEN05_DESCRIPTOR = {
  { "start address", 14 }, { "reserved 14-15", 2 }, { "leading byte offset", 14 }, { "reserved 30-31", 2 },
  { "stride byte offset", 14 }, { "version", 3 }, { "base offset", 3 }, { "leading offset mode", 1 },
  { "reserved 53-60", 8 }, { "swizzle", 3 },
}
local WGMMA_DESCRIPTOR = {
  { "start address", 14 }, { "reserved 14-15", 2 }, { "leading byte offset", 14 }, { "reserved 30-31", 2 },
  { "stride byte offset", 14 }, { "reserved 46-48", 3 }, { "base offset", 3 }, { "reserved 52-61", 10 },
  { "swizzle", 2 },
}
local INSTRUCTION = {
  { "sparsity selector", 2 }, { "sparse", 1 }, { "saturate", 1 }, { "D type", 2 }, { "reserved 6", 1 }, { "A type", 3 },
  { "B type", 3 }, { "negate", 2 }, { "transpose", 2 }, { "N", 6 }, { "reserved 23", 1 }, { "M", 5 },
  { "reserved 29", 1 }, { "maximum shift", 2 },
}
local INSTRUCTION_BLOCK_SCALED = {
  { "reserved 0-1", 2 }, { "sparse", 1 }, { "reserved 3", 1 }, { "scale factor id of B", 2 }, { "reserved 6", 1 },
  { "A type", 3 }, { "B type", 3 }, { "negate", 2 }, { "transpose", 2 }, { "N", 6 }, { "scale type", 1 },
  { "reserved 24-26", 3 }, { "M", 2 }, { "scale factor id of A", 2 }, { "reserved 31", 1 },
}

-- What tensormap.replace can set of a map of bf16 with swizzle 128B, and its codes for the values; count: bits, where
-- not all of the operand is tried because the value stands in the text.
local function map_fields(map, box, target)
  local bf16, swizzle_128 = 10, 3
  local fields = {
    { name = "global_address", width = 64 },
    { name = "rank", width = 32, count = 3, value = 2 - 1 },
    { name = "global_stride", ordinal = 0, width = 64, value = map.columns * 2 },
    { name = "elemtype", width = 32, count = 4, value = bf16 },
    { name = "interleave_layout", width = 32, count = 2, value = 0 },
    { name = "swizzle_mode", width = 32, count = 3, value = swizzle_128 },
    { name = "fill_mode", width = 32, count = 1, value = 0 },
  }
  for i = 0, 1 do
    fields[#fields + 1] = { name = "global_dim", ordinal = i, width = 32, value = map.dims[i + 1] }
    fields[#fields + 1] = { name = "box_dim", ordinal = i, width = 32, value = box[i + 1] }
    fields[#fields + 1] = { name = "element_stride", ordinal = i, width = 32, value = 1 }
  end
  if target ~= "sm_90a" then
    fields[#fields + 1] = { name = "swizzle_atomicity", width = 32, count = 2, value = 0 }
  end
  return fields
end

-- ---- problems ---------------------------------------------------------------------------------------

-- One tile of C for one CTA, two steps along K.
local TILE = { M = 128, N = 256, K = 128 }

-- The arrays are larger than the maps (dims: innermost first), in two ways: with the tile inside of the map of C, so
-- that what is stored beside it shows; and with maps that end inside of the tile, so that their ends show.
local INSIDE = {
  A = { rows = 128, columns = 128, dims = { 128, 128 } }, B = { rows = 256, columns = 128, dims = { 128, 256 } },
  C = { rows = 272, columns = 528, dims = { 528, 272 } },
}
local EDGES = {
  A = { rows = 144, columns = 144, dims = { 72, 100 } }, B = { rows = 272, columns = 144, dims = { 72, 200 } },
  C = { rows = 144, columns = 272, dims = { 250, 120 } },
}

-- Rows of an array with `outside` in the place of what the map leaves out.
local function masked(rows, map, outside, height, width)
  local out = {}
  for r = 1, height do
    out[r] = {}
    for c = 1, width do out[r][c] = r <= map.dims[2] and c <= map.dims[1] and rows[r][c] or outside end
  end
  return out
end

local function operand(map, seed)
  return tc.randint({ map.rows, map.columns }, tc.i32, { low = -4, high = 5, seed = seed }):totable()
end

-- What the tile is in double precision, with zeros for what is outside of A and B.
local function expected_of(a, b, maps)
  local product = tc.reference.matmul(tc.from_table(masked(a, maps.A, 0, TILE.M, TILE.K), tc.f64),
    tc.from_table(masked(b, maps.B, 0, TILE.N, TILE.K), tc.f64), { transpose_b = true }):totable()
  local visible = { dims = { math.min(TILE.N, maps.C.dims[1]), math.min(TILE.M, maps.C.dims[2]) } }
  return tc.from_table(masked(product, visible, UNTOUCHED, maps.C.rows, maps.C.columns), tc.bf16)
end

-- launch(text, options) of a problem runs on fresh arrays: a wrong address may hit any of them.  options: mode; of: the
-- array whose map is replaced; l2: promotion of that map.
local function problem_with_maps(manifest, maps)
  local a, b = operand(maps.A, 1), operand(maps.B, 2)
  local pristine = {
    A = tc.from_table(masked(a, maps.A, NAN, maps.A.rows, maps.A.columns), tc.bf16),
    B = tc.from_table(masked(b, maps.B, NAN, maps.B.rows, maps.B.columns), tc.bf16),
    C = tc.full({ maps.C.rows, maps.C.columns }, UNTOUCHED, tc.bf16),
  }
  local value = witness.evaluator { M = TILE.M, N = TILE.N, K = TILE.K, nk = 2 }
  local function launch(text, o)
    local arrays = {}
    for name, array in pairs(pristine) do arrays[name] = array:copy() end
    local args = witness.map(manifest.params, function(param)
      if param.kind ~= "tensormap" then return value(param.formula or "0") end
      local map = maps[param.of]
      return tc.tensormap(arrays[param.of], {
        dims = map.dims, strides = { map.columns * 2 }, box = param.box, element_strides = param.element_strides,
        swizzle = param.swizzle, interleave = param.interleave, l2 = o.l2 and o.of == param.of and o.l2
          or param.l2_promotion, dtype = param.dtype })
    end)
    if o.of and not o.l2 then
      args[#args + 1] = tc.zeros({ 128 }, tc.u8)
      args[#args + 1] = arrays[o.of]
    end
    return witness.emulate(manifest, text, { args = args, grid = { 1 }, mode = o.mode, numerics = "f32" }), arrays.C
  end
  return { launch = launch, expected = expected_of(a, b, maps), maps = maps }
end

local function problem_with_pointers(manifest)
  local sizes = { M = 128, N = 128, K = 128 }
  local value = witness.evaluator(sizes)
  local tensors = witness.tensors(manifest, value, false)
  tensors.A = tc.randint({ 128, 128 }, tc.e4m3, { low = -4, high = 5, seed = 1 })
  tensors.B = tc.randint({ 128, 128 }, tc.e4m3, { low = -4, high = 5, seed = 2 })
  local expected = witness.reference(tensors, sizes)
  local function launch(text, o)
    local arrays = {}
    for name, array in pairs(tensors) do arrays[name] = array:copy() end
    local args = witness.map(manifest.params, function(param) return witness.argument(param, value, arrays) end)
    return witness.emulate(manifest, text, { args = args, problem = sizes, mode = o.mode, numerics = "f32" }), arrays.C
  end
  return { launch = launch, expected = expected:astype(tc.bf16) }
end

-- ---- verdicts -----------------------------------------------------------------------------------------

local function objects(ok, report)
  if not ok or not report.completed then return true end
  for _, hazard in ipairs(report.hazards) do
    if hazard.severity == "error" then return true end
  end
  return false
end

-- "rejected", "changed" or "ignored" by all of the problems.
local function verdict(problems, text_of, o)
  for _, problem in ipairs(problems) do
    local text = text_of(problem)
    for _, mode in ipairs { "fast", "check" } do
      local ok, report, out = pcall(problem.launch, text, { mode = mode, of = o and o.of, l2 = o and o.l2 })
      if objects(ok, report) then return "rejected" end
      if not out:equal(problem.expected) then return "changed" end
    end
  end
  return "ignored"
end

-- The bits of a field that nothing notices; text_of(problem, flip).
local function unnoticed(problems, count, text_of, o)
  local list = {}
  for bit = 0, count - 1 do
    if verdict(problems, function(problem) return text_of(problem, 1 << bit) end, o) == "ignored" then
      list[#list + 1] = bit
    end
  end
  return list
end

local function expected_bits(kind, field, of)
  for _, row in ipairs(ignored[kind]) do
    if row.field == field and (not of or not row.of or row.of[of]) then return row.bits end
  end
  return {}
end

-- ---- the kernels --------------------------------------------------------------------------------------

-- Each multiplication by itself; `at`: which of its operands.
local function check_operand(problems, text, multiplication, kind, at, width, fields)
  local function flipped(mask) return mutation.flip_operand(text, multiplication, at, width, mask) end
  assert.equal("ignored", verdict(problems, function() return flipped(0) end))
  local low = 0
  for _, field in ipairs(fields) do
    local name, count = field[1], field[2]
    local bits = unnoticed(problems, count, function(_, mask) return flipped(mask << low) end)
    assert.same(expected_bits(kind, name), bits, name)
    low = low + count
  end
  assert.equal(width, low)
end

local function check_operands(problems, text, descriptor, instruction)
  local multiplications = mutation.multiplications(text)
  for i, multiplication in ipairs(multiplications) do
    for which, name in ipairs { "A", "B" } do
      it(("descriptor of %s, multiplication %d of %d"):format(name, i, #multiplications), function()
        check_operand(problems, text, multiplication, "shared-memory descriptor", which + 1, 64, descriptor)
      end)
    end
    if instruction then
      it(("instruction descriptor, multiplication %d of %d"):format(i, #multiplications), function()
        check_operand(problems, text, multiplication, "instruction descriptor", 4, 32, instruction)
      end)
    end
  end
end

local function check_map_field(problems, text, parameter, fields_of, index, of)
  local field = fields_of(problems[1])[index]
  local function text_of(problem, flip)
    return mutation.replace_in_map(text, parameter, fields_of(problem)[index], flip)
  end
  local o = { of = of }
  assert.equal("ignored", verdict(problems, function(problem) return text_of(problem, 0) end, o))
  local name = field.ordinal and field.name .. " " .. field.ordinal or field.name
  assert.same(expected_bits("tensor map", name, of), unnoticed(problems, field.count or field.width, text_of, o), name)
end

-- The code of 128B is 2; tensormap.replace has no such field.
local function check_promotion(problems, text, of)
  local names, code, bits = { [0] = "none", "64B", "128B", "256B" }, 2, {}
  for bit = 0, 1 do
    local o = { of = of, l2 = names[code ~ 1 << bit] }
    if verdict(problems, function() return text end, o) == "ignored" then bits[#bits + 1] = bit end
  end
  assert.same(expected_bits("tensor map", "l2_promotion", of), bits)
end

local function check_maps(problems, manifest, text)
  local names = {}
  for name in text:match "%.entry [^(]*(%b())":gmatch "([%w_]+)%[128%]" do names[#names + 1] = name end
  for _, param in ipairs(manifest.params) do
    if param.kind == "tensormap" then
      local parameter = table.remove(names, 1)
      local function fields_of(problem) return map_fields(problem.maps[param.of], param.box, manifest.target) end
      it("tensor map of " .. param.of, function()
        for index in ipairs(fields_of(problems[1])) do
          check_map_field(problems, text, parameter, fields_of, index, param.of)
        end
        check_promotion(problems, text, param.of)
      end)
    end
  end
end

describe("an inverted bit of", function()
  for name, descriptor in pairs {
    gluon_sm100_blocked_bf16 = TCGEN05_DESCRIPTOR, own_sm90_gemm = WGMMA_DESCRIPTOR,
  } do
    describe(name .. ":", function()
      local manifest, text = witness.load(name)
      local inside, edges = problem_with_maps(manifest, INSIDE), problem_with_maps(manifest, EDGES)
      check_operands({ inside }, text, descriptor, descriptor == TCGEN05_DESCRIPTOR and INSTRUCTION)
      check_maps({ inside, edges }, manifest, text)
    end)
  end

  describe("triton_sm100_scaled_mxfp8:", function()
    local manifest, text = witness.load "triton_sm100_scaled_mxfp8"
    check_operands({ problem_with_pointers(manifest) }, text, TCGEN05_DESCRIPTOR, INSTRUCTION_BLOCK_SCALED)
  end)
end)
