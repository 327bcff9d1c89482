-- Kernels of other compilers for sm_90a (spec/witness/README.md) on integers, which are exact, and normal numbers.
local json = require "dkjson"
local tc = require "tcmma"

local directory = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
directory = directory .. "../witness/"

local names = { "own_sm90_gemm", "triton_sm90_gemm_128x256x64_w8", "gluon_sm90_ws_128x256x64", "triton_sm90_attn_d128" }
local dtypes = { bf16 = tc.bf16, f16 = tc.f16, f32 = tc.f32, e4m3 = tc.e4m3 }

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function map(list, fn)
  local out = {}
  for i, value in ipairs(list) do out[i] = fn(value) end
  return out
end

-- Formulas of a manifest over the sizes of a problem, for a machine of four multiprocessors.
local function evaluator(problem)
  local environment = { SMs = 4, min = math.min, ceildiv = function(a, b) return (a + b - 1) // b end }
  for name, value in pairs(problem) do environment[name] = value end
  return function(formula) return assert(load("return " .. formula, formula, "t", environment))() end
end

local function data(tensor, shape, exact, seed)
  local dtype = assert(dtypes[tensor.dtype], tensor.dtype)
  if tensor.role ~= "in" then return tc.full(shape, -999, dtype):tobytes() end
  if exact then return tc.randint(shape, dtype, { low = -4, high = 5, seed = seed }):tobytes() end
  return tc.randn(shape, dtype, { seed = seed }):tobytes()
end

local function case_of(name, title, manifest, text, problem, grid, exact)
  local value = evaluator(problem)
  local args, at, hidden = {}, {}, {}
  for i, tensor in ipairs(manifest.tensors) do
    local bytes = data(tensor, map(tensor.shape_formula, value), exact, i)
    hidden[i] = tensor.role == "in" and { input = bytes, hidden = true }
      or { output = #bytes, initial = bytes, hidden = true }
    at[tensor.name] = #manifest.params + i
  end
  for i, param in ipairs(manifest.params) do
    if param.kind == "tensormap" then
      args[i] = { of = at[param.of], map = { dims = map(param.dims_formula, value),
        strides = map(param.strides_formula, value),
        box = param.box, element_strides = param.element_strides, swizzle = param.swizzle,
          interleave = param.interleave,
        l2 = param.l2_promotion, dtype = param.dtype } }
    elseif param.kind == "pointer" then
      args[i] = { pointer = at[param.of] }
    elseif param.kind == "hidden-pointer" then
      args[i] = 0
    else
      args[i] = value(param.formula)
    end
  end
  table.move(hidden, 1, #hidden, #args + 1, args)
  return { name = ("%s %s, %s"):format(name, title, exact and "integers" or "normal"), family = name, text = text,
    whole = true,
    entry = manifest.kernel, grid = grid or map(manifest.launch.grid_formula, value), block = manifest.launch.block,
    cluster = manifest.launch.cluster, smem = manifest.launch.dynamic_smem, args = args, stride = 2,
    result = manifest.tensors[#manifest.tensors].dtype }
end

return function()
  local cases = {}
  for _, name in ipairs(names) do
    local manifest, text = json.decode(read(directory .. name .. ".json")), read(directory .. name .. ".ptx")
    local integers = manifest.tolerance.exact_inputs ~= nil
    local function add(title, problem, grid)
      cases[#cases + 1] = case_of(name, title, manifest, text, problem, grid, false)
      if integers then cases[#cases + 1] = case_of(name, title, manifest, text, problem, grid, true) end
    end
    add("default size", manifest.problem, manifest.launch.grid)
    for _, variant in ipairs(manifest.variants) do
      local problem = {}
      for key, value in pairs(manifest.problem) do problem[key] = value end
      for key, value in pairs(variant.problem) do problem[key] = value end
      add(variant.name, problem, variant.grid)
    end
  end
  return cases
end
