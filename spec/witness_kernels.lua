-- Kernels of spec/witness with their manifests (spec/witness/README.md): inputs, arguments, launch.
local tc = require "tcmma"
local json = require "dkjson"

local M = {}

local directory = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "witness/"

M.dtypes = { bf16 = tc.bf16, e4m3 = tc.e4m3, e8m0 = tc.e8m0, f16 = tc.f16, f32 = tc.f32 }

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- Manifest and PTX.
function M.load(name)
  return json.decode(read(directory .. name .. ".json")), read(directory .. name .. ".ptx")
end

-- Formulas of a manifest over the sizes of a problem; the machine is small.
function M.evaluator(problem)
  local environment = { SMs = 4, min = math.min, ceildiv = function(a, b) return (a + b - 1) // b end }
  for name, value in pairs(problem) do environment[name] = value end
  return function(formula)
    return assert(load("return " .. formula, formula, "t", environment))()
  end
end

function M.map(list, fn)
  local out = {}
  for i, value in ipairs(list) do out[i] = fn(value) end
  return out
end

-- ---- tensors ------------------------------------------------------------------------------------

-- Scales are powers of two: their codes are 127 plus the exponent.
local function scales(shape, exact, seed)
  local exponents = tc.randint(shape, tc.i32, { low = exact and 0 or -2, high = exact and 2 or 3, seed = seed })
  return tc.from_table(M.map(exponents:reshape { shape[1] * shape[2] }:totable(), function(e) return 2.0 ^ e end),
      tc.e8m0)
    :reshape(shape)
end

local function input(tensor, shape, exact, seed)
  if tensor.dtype == "e8m0" then return scales(shape, exact, seed) end
  local dtype = assert(M.dtypes[tensor.dtype], tensor.dtype)
  if exact then return tc.randint(shape, dtype, { low = -4, high = 5, seed = seed }) end
  return tc.randn(shape, dtype, { seed = seed })
end

-- Arrays by name; `exact`: integers, whose sums are exact in f32.
function M.tensors(manifest, value, exact)
  local tensors = {}
  for i, tensor in ipairs(manifest.tensors) do
    local shape = M.map(tensor.shape_formula, value)
    tensors[tensor.name] = tensor.role == "in" and input(tensor, shape, exact, i)
      or tc.full(shape, -999, M.dtypes[tensor.dtype])
  end
  return tensors
end

function M.argument(param, value, tensors)
  if param.kind == "tensormap" then
    return tc.tensormap(tensors[param.of], {
      dims = M.map(param.dims_formula, value), strides = M.map(param.strides_formula, value), box = param.box,
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

-- The report of a launch.  o: args, problem, grid (default: the manifest's formula), mode, numerics, seed.
function M.emulate(manifest, text, o)
  return tc.ptx(text):kernel(manifest.kernel):emulate {
    grid = o.grid or M.map(manifest.launch.grid_formula, M.evaluator(o.problem)), block = manifest.launch.block,
    cluster = manifest.launch.cluster, smem = manifest.launch.dynamic_smem, mode = o.mode, numerics = o.numerics,
    seed = o.seed, args = o.args,
  }
end

-- ---- references -----------------------------------------------------------------------------------

local function scaled(array, factors)
  local rows, blocks = array:totable(), factors:totable()
  for i, row in ipairs(rows) do
    for k = 1, #row do row[k] = row[k] * blocks[i][(k - 1) // 32 + 1] end
  end
  return tc.from_table(rows, tc.f64)
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

-- The result in double precision, and the array that the kernel writes.
function M.reference(tensors, problem)
  if tensors.Q then return attention(tensors, problem) end
  local a, b = tensors.A, tensors.B
  if tensors.SA then a, b = scaled(a, tensors.SA), scaled(b, tensors.SB) end
  return tc.reference.matmul(a, b, { transpose_b = true }), tensors.C
end

return M
