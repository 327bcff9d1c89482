-- PTX of other compilers on the emulator: spec/witness/README.md says what the files are.
local tc = require "tcmma"
local json = require "dkjson"

local directory = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
directory = directory .. "witness/"

-- Those that every change must keep running come first.
local names = {
  "gluon_sm100_blocked_bf16",
  "triton_sm100_gemm_128x256x64_sub_w4",
  "own_sm90_gemm",
  "triton_sm90_gemm_128x256x64_w8",
  "gluon_sm90_ws_128x256x64",
  "gluon_sm100_ws_fp8",
  "triton_sm100_attn_d128",
  "triton_sm90_attn_d128",
  "triton_sm100_scaled_mxfp8",
}

local dtypes = { bf16 = tc.bf16, e4m3 = tc.e4m3, e8m0 = tc.e8m0, f16 = tc.f16, f32 = tc.f32 }

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- Formulas of a manifest over the sizes of a problem; the machine is small.
local function evaluator(problem)
  local environment = { SMs = 4, min = math.min, ceildiv = function(a, b) return (a + b - 1) // b end }
  for name, value in pairs(problem) do environment[name] = value end
  return function(formula)
    return assert(load("return " .. formula, formula, "t", environment))()
  end
end

local function map(list, fn)
  local out = {}
  for i, value in ipairs(list) do out[i] = fn(value) end
  return out
end

-- ---- tensors ------------------------------------------------------------------------------------

-- Scales are powers of two: their codes are 127 plus the exponent.
local function scales(shape, exact, seed)
  local exponents = tc.randint(shape, tc.i32, { low = exact and 0 or -2, high = exact and 2 or 3, seed = seed })
  return tc.from_table(map(exponents:reshape { shape[1] * shape[2] }:totable(), function(e) return 2.0 ^ e end),
      tc.e8m0)
    :reshape(shape)
end

local function input(tensor, shape, exact, seed)
  if tensor.dtype == "e8m0" then return scales(shape, exact, seed) end
  local dtype = assert(dtypes[tensor.dtype], tensor.dtype)
  if exact then return tc.randint(shape, dtype, { low = -4, high = 5, seed = seed }) end
  return tc.randn(shape, dtype, { seed = seed })
end

local function make_tensors(manifest, value, exact)
  local tensors = {}
  for i, tensor in ipairs(manifest.tensors) do
    local shape = map(tensor.shape_formula, value)
    tensors[tensor.name] = tensor.role == "in" and input(tensor, shape, exact, i)
      or tc.full(shape, -999, dtypes[tensor.dtype])
  end
  return tensors
end

local function argument(param, value, tensors)
  if param.kind == "tensormap" then
    return tc.tensormap(tensors[param.of], {
      dims = map(param.dims_formula, value), strides = map(param.strides_formula, value), box = param.box,
      element_strides = param.element_strides, swizzle = param.swizzle, interleave = param.interleave,
      l2 = param.l2_promotion, dtype = param.dtype,
    })
  elseif param.kind == "pointer" then
    return tensors[param.of]
  elseif param.kind == "hidden-pointer" then
    return 0
  end
  return value(param.formula)
end

-- ---- references -----------------------------------------------------------------------------------

local function gemm(tensors)
  return tc.reference.matmul(tensors.A, tensors.B, { transpose_b = true }), tensors.C
end

local function scaled(array, factors)
  local rows, blocks = array:totable(), factors:totable()
  for i, row in ipairs(rows) do
    for k = 1, #row do row[k] = row[k] * blocks[i][(k - 1) // 32 + 1] end
  end
  return tc.from_table(rows, tc.f64)
end

local function scaled_gemm(tensors)
  return tc.reference.matmul(scaled(tensors.A, tensors.SA), scaled(tensors.B, tensors.SB), { transpose_b = true }),
    tensors.C
end

local function softmax(rows, scale)
  for _, row in ipairs(rows) do
    local most, sum = math.max(table.unpack(row)), 0
    for i, x in ipairs(row) do
      row[i] = math.exp((x - most) * scale)
      sum = sum + row[i]
    end
    for i = 1, #row do row[i] = row[i] / sum end
  end
  return tc.from_table(rows, tc.f64)
end

local function attention(tensors, problem)
  local q, k, v, out = tensors.Q:totable(), tensors.K:totable(), tensors.V:totable(), {}
  for h = 0, problem.H - 1 do
    local function head(rows) return tc.from_table(table.move(rows, h * problem.S + 1, (h + 1) * problem.S, 1, {}),
        tc.f64) end
    local p = softmax(tc.reference.matmul(head(q), head(k), { transpose_b = true }):totable(), problem.scale)
    for _, row in ipairs(tc.reference.matmul(p, head(v)):totable()) do out[#out + 1] = row end
  end
  return tc.from_table(out, tc.f64), tensors.O
end

local function reference(tensors, problem)
  if tensors.Q then return attention(tensors, problem) end
  if tensors.SA then return scaled_gemm(tensors) end
  return gemm(tensors)
end

-- ---- runs -------------------------------------------------------------------------------------------

local function hazards_of(report)
  local lines = {}
  for _, hazard in ipairs(report.hazards) do
    if hazard.severity == "error" then lines[#lines + 1] = ("%s: %s (line %s)"):format(hazard.rule, hazard.message,
        hazard.ptx_line) end
  end
  return table.concat(lines, "\n")
end

local function run(manifest, text, case)
  local problem = case.problem
  local value = evaluator(problem)
  local tensors = make_tensors(manifest, value, case.exact)
  local report = tc.ptx(text):kernel(manifest.kernel):emulate {
    grid = case.grid or map(manifest.launch.grid_formula, value), block = manifest.launch.block,
    cluster = manifest.launch.cluster, smem = manifest.launch.dynamic_smem, mode = case.mode, numerics = case.numerics,
    seed = case.seed,
    args = map(manifest.params, function(param) return argument(param, value, tensors) end),
  }
  assert.equal("", hazards_of(report))
  assert.is_true(report.completed)
  local expected, out = reference(tensors, problem)
  if case.exact then
    assert.is_true(out:equal(expected:astype(out.dtype)), "a bit differs")
  else
    local tolerance = manifest.tolerance
    local close, difference = tc.allclose(out, expected, { rtol = tolerance.rtol, atol = tolerance.atol })
    assert.is_true(close, tostring(difference))
    assert.is_true(difference.relative_rms <= tolerance.relative_rms, tostring(difference))
  end
end

-- Sums of integers are exact in the GEMMs; attention has exponentials.
local function cases_of(manifest)
  local integers = manifest.tolerance.exact_inputs ~= nil
  local cases = {}
  local function add(title, case)
    cases[#cases + 1] = { title = title .. ", normal numbers", case = case }
    if integers then
      local exact = { exact = true }
      for key, value in pairs(case) do exact[key] = value end
      cases[#cases + 1] = { title = title .. ", integers bit for bit", case = exact }
    end
  end
  add("default size", { problem = manifest.problem, grid = manifest.launch.grid })
  for _, variant in ipairs(manifest.variants) do
    local problem = {}
    for key, value in pairs(manifest.problem) do problem[key] = value end
    for key, value in pairs(variant.problem) do problem[key] = value end
    add(variant.name, { problem = problem, grid = variant.grid })
  end
  add("asynchronous work as late as possible", {
    problem = manifest.problem, grid = manifest.launch.grid, mode = "check", numerics = "f32" })
  add("a random schedule", {
    problem = manifest.problem, grid = manifest.launch.grid, mode = "random", seed = 7, numerics = "hardware" })
  return cases
end

for _, name in ipairs(names) do
  describe("witness " .. name, function()
    local manifest = json.decode(read(directory .. name .. ".json"))
    local text = read(directory .. name .. ".ptx")
    for _, case in ipairs(cases_of(manifest)) do
      it(case.title, function() run(manifest, text, case.case) end)
    end
  end)
end
