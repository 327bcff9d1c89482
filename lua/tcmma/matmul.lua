--- matmul(a, b, out, opts): matrix products of any size with a fused epilogue, on the public API alone.

local arguments = require "tcmma.arguments"
local core = require "tcmma.core"
local documentation = require "tcmma.documentation"
local kernel = require "tcmma.matmul_kernel"
local model = require "tcmma.matmul_model"
local tc = require "tcmma"

local options_known = {
  transpose_b = "boolean", epilogue = "any", bias = "array", residual = "array", row_scale = "array",
  column_scale = "array", accumulate_f32 = "boolean", config = "table",
}
local config_integers = {
  "tile_m", "tile_n", "tile_k", "stages", "group", "split_k", "cluster", "cluster_n", "piece", "slots", "ctas",
}
local config_known = {
  tile_m = true, tile_n = true, tile_k = true, stages = true, group = true, swap = true, split_k = true,
  cluster = true, cluster_n = true, piece = true, slots = true, ctas = true,
}
local operands = { float16 = true, bfloat16 = true, float8_e4m3fn = true, float8_e5m2 = true }

--- Largest split_k and cluster that kernels can have.
local limits = { split_k = 4, cluster = 4, cluster_n = 4 }

--- What the model tries of them.
local searched = { split_k = 3, cluster = 2 }

local matmul = {}

local function fail(text, ...)
  arguments.fail("matmul: " .. text, ...)
end

local function names(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, ", ")
end

local function shape_text(shape)
  return "(" .. table.concat(shape, ", ") .. ")"
end

--- TMA takes rows of a multiple of 16 bytes.
local function check_pitch(name, columns, dtype)
  if columns * dtype.bits % 128 ~= 0 then
    local multiple = 128 // dtype.bits
    fail("a row of '%s' has %d elements of %s; TMA needs a multiple of %d (16 bytes). Pad the array to %d columns",
      name, columns, dtype.name, multiple, (columns + multiple - 1) // multiple * multiple)
  end
end

local function check_config(problem, config)
  for key in pairs(config) do
    if not config_known[key] then
      fail("option 'config' has no field '%s' (%s)", tostring(key), arguments.advice(key, "fields", config_known))
    end
  end
  for _, key in ipairs(config_integers) do
    local value = config[key]
    if value ~= nil and (math.type(value) ~= "integer" or value < 1) then
      fail("config.%s must be an integer >= 1, got %s", key, tostring(value))
    end
  end
  local function one_of(key, ok, legal)
    if config[key] and not ok(config[key]) then fail("config.%s = %d: legal is %s", key, config[key], legal) end
  end
  local atom = 1024 // problem.dtype.bits
  if problem.target == "sm_90a" then
    one_of("tile_m", function(x) return x % 64 == 0 and x <= 256 end, "64, 128, 192 or 256")
  else
    one_of("tile_m", function(x) return x == 64 or x == 128 end, "64 or 128")
  end
  one_of("tile_n", function(x) return x % 8 == 0 and x <= 256 end, "a multiple of 8 up to 256")
  one_of("tile_k", function(x) return x % atom == 0 and x <= 4 * atom end,
    ("a multiple of %d (128 bytes) up to %d"):format(atom, 4 * atom))
  one_of("stages", function(x) return x <= 32 end, "1 to 32")
  one_of("piece", function(x) return x == 16 or x == 32 or x == 64 or x == 128 end, "16, 32, 64 or 128 bytes")
  one_of("slots", function(x) return x <= 2 end, "1 or 2")
  for key, most in pairs(limits) do
    one_of(key, function(x) return x <= most end, ("1 to %d"):format(most))
  end
end

--- Refuses a configuration that the kernel cannot have, with the reason.
local function check_complete(problem, config)
  local room = model.machines[problem.target].smem
  local stage = (config.tile_m + config.tile_n) * config.tile_k * problem.dtype.bits // 8
  local bytes = config.stages * stage + model.epilogue_bytes(problem, config)
  if bytes > room - 1024 then
    fail("configuration %s needs %d bytes of SMEM, %s has %d: at most %d stages fit", model.describe(config), bytes,
      problem.target, room - 1024, math.max(0, model.stages(problem, config, 32)))
  end
  if config.tile_m == 64 and config.tile_n % 16 ~= 0 and problem.target ~= "sm_90a" then
    fail("tile_n = %d: with tile_m = 64, %s needs a multiple of 16", config.tile_n, problem.target)
  end
  if problem.promote and config.tile_n > model.PROMOTED then
    fail("tile_n = %d: with accumulate_f32 = true for 8-bit operands %s takes at most %d", config.tile_n,
      problem.target, model.PROMOTED)
  end
  -- A multicast is cut along the rows of an operand, or along K where the operand has it first.
  local a_last, b_last = true, problem.transpose_b
  if config.swap then a_last, b_last = b_last, a_last end
  for _, x in ipairs { { "cluster", "tile_n", b_last }, { "cluster_n", "tile_m", a_last } } do
    local ctas, cut = config[x[1]], x[3] and x[2] or "tile_k"
    if ctas > 1 and (config[cut] < 8 * ctas or not x[3] and config.tile_k % (8 * ctas) ~= 0) then
      fail("%s = %d: %s = %d must be %s %d, 8 for each CTA", x[1], ctas, cut, config[cut],
        x[3] and "at least" or "a multiple of", 8 * ctas)
    end
  end
  if (config.split_k > 1 and 1 or 0) + (config.cluster > 1 and 1 or 0) + (config.cluster_n > 1 and 1 or 0) > 1 then
    fail("only one of config.split_k, config.cluster and config.cluster_n can be more than 1")
  end
  if config.split_k > 1 then
    local _, _, tiles, workers = model.division(problem, config)
    if tiles > workers then
      fail("split_k = %d: %d tiles are more than the %d clusters that run at once; use larger tiles", config.split_k,
        tiles, workers)
    end
    if config.split_k > (problem.K + config.tile_k - 1) // config.tile_k then
      fail("split_k = %d: K = %d has fewer blocks of tile_k = %d", config.split_k, problem.K, config.tile_k)
    end
  end
  local b_outer = config.swap and config.tile_m or config.tile_n
  if not problem.transpose_b and b_outer % 16 ~= 0 then
    fail("tile_n = %d: with b stored as [K, N] it must be a multiple of 16", b_outer)
  end
  if config.tile_n * problem.out_dtype.bits % 128 ~= 0 and not config.swap then
    fail("tile_n = %d: a row of the tile of out must be a multiple of 16 bytes", config.tile_n)
  end
end

--- Completes a problem {M, N, K, dtype, ...} and checks it.
local function complete(problem)
  if type(problem) ~= "table" then fail("'problem' must be a table, got %s", arguments.describe(problem)) end
  local p = {}
  for key, value in pairs(problem) do p[key] = value end
  for _, key in ipairs { "M", "N", "K" } do
    if math.type(p[key]) ~= "integer" or p[key] < 1 then
      fail("problem.%s must be an integer >= 1, got %s", key, tostring(p[key]))
    end
  end
  for _, key in ipairs { "dtype", "dtype_b", "out_dtype", "bias", "residual", "row_scale", "column_scale" } do
    if p[key] then p[key] = tc.dtype(p[key]) end
  end
  if not p.dtype or not operands[p.dtype.name] then
    fail("operands must be one of %s, got %s", names(operands), tostring(p.dtype))
  end
  local narrow = p.dtype.bits == 8
  if p.dtype_b and p.dtype_b ~= p.dtype and not (narrow and p.dtype_b.bits == 8) then
    fail("a is %s and b is %s; they must have one type (two 8-bit floats may differ)", p.dtype.name, p.dtype_b.name)
  end
  p.out_dtype = p.out_dtype or (narrow and tc.bfloat16 or p.dtype)
  p.transpose_b = p.transpose_b or false
  p.target = p.target or tc.device().target
  if not model.machines[p.target] then fail("target %s has no tensor cores that tcmma knows", p.target) end
  if narrow and not p.transpose_b and p.target == "sm_90a" then
    fail("8-bit operands of wgmma are K-major: store b as [N, K] and pass transpose_b = true")
  end
  -- Hopper keeps about 14 bits of a sum of 8-bit products.
  p.promote = narrow and p.accumulate_f32 == true and p.target == "sm_90a"
  if p.accumulate_f32 == nil then p.accumulate_f32 = true end
  if not p.accumulate_f32 and p.dtype ~= tc.float16 and not narrow then
    fail("accumulate_f32 = false is for float16 and 8-bit operands; %s accumulates in float32", p.dtype.name)
  end
  local e = p.epilogue
  if e == "none" then p.epilogue = nil
  elseif e ~= nil and not kernel.activations[e] and type(e) ~= "function" then
    fail("option 'epilogue' must be one of none, %s, or a function of a fragment, got %s", names(kernel.activations),
      tostring(e))
  end
  check_pitch("a", p.K, p.dtype)
  check_pitch("b", p.transpose_b and p.K or p.N, p.dtype)
  check_pitch("out", p.N, p.out_dtype)
  if p.residual then
    if p.residual.bits ~= p.out_dtype.bits then
      fail("'residual' is %s; it must have as many bits as out, %s", p.residual.name, p.out_dtype.name)
    end
    check_pitch("residual", p.N, p.residual)
  end
  return p
end

--- The configuration for a problem: the given one completed, or the model's first.
local function configure(problem, given)
  local config
  if given then
    check_config(problem, given)
    config = model.complete(problem, given)
  else
    local list = model.candidates(problem, searched)
    if not list[1] then
      fail("no configuration fits %dx%dx%d on %s", problem.M, problem.N, problem.K, problem.target)
    end
    config = model.complete(problem, list[1].config)
  end
  check_complete(problem, config)
  return arguments.shown(config)
end

--- Text that is equal for two problems exactly when one kernel serves both.
local function key_of(problem, given)
  local function dtype(x) return x and x.short or "-" end
  local parts = {
    problem.name or "", problem.target, problem.sms or "-", problem.M, problem.N, problem.K, dtype(problem.dtype),
    dtype(problem.dtype_b), dtype(problem.out_dtype), problem.transpose_b and "nt" or "nn", tostring(problem.epilogue),
    dtype(problem.bias), dtype(problem.residual), dtype(problem.row_scale), dtype(problem.column_scale),
    tostring(problem.accumulate_f32), tostring(problem.promote),
  }
  if given then
    for _, name in ipairs(config_integers) do parts[#parts + 1] = tostring(given[name]) end
    parts[#parts + 1] = tostring(given.swap)
  end
  return table.concat(parts, " ")
end

local cache = {}

local function cached(problem, given)
  local key = key_of(problem, given)
  local entry = cache[key]
  if not entry then
    local config = configure(problem, given)
    -- The problem keeps an epilogue function alive, whose address is in the key.
    entry = { kernel = kernel.build(problem, config), config = config, problem = problem }
    cache[key] = entry
  end
  return entry
end

--- A kernel for a problem without arrays, and its configuration.
function matmul.kernel(problem, config)
  local entry = cached(complete(problem), config)
  return entry.kernel, entry.config
end

function matmul.choose(problem, config)
  return configure(complete(problem), config)
end

function matmul.candidates(problem)
  local result = model.candidates(complete(problem), searched)
  for _, candidate in ipairs(result) do
    arguments.shown(candidate)
    arguments.shown(candidate.config)
    arguments.shown(candidate.terms)
  end
  return arguments.shown(result)
end

matmul.describe = model.describe

local function check_array(name, x, shape)
  if not arguments.is_array(x) then fail("'%s' must be an array, got %s", name, arguments.describe(x)) end
  local got = x.shape
  local same = #got == #shape
  for i, size in ipairs(shape) do same = same and got[i] == size end
  if not same then fail("'%s' has shape %s, expected %s", name, shape_text(got), shape_text(shape)) end
end

local function check_options(opts)
  for name, value in pairs(opts) do
    local kind = options_known[name]
    if not kind then
      fail("unknown option '%s' (%s)", tostring(name), arguments.advice(name, "options", options_known))
    end
    local ok = kind == "any" or type(value) == kind
    if kind == "array" then ok = arguments.is_array(value) end
    if not ok then
      fail("option '%s' must be %s %s, got %s", name, kind == "array" and "an" or "a", kind, arguments.describe(value))
    end
  end
end

--- Multiprocessors of a GPU, by its name: the properties are read from the driver, which takes half a millisecond.
local sm_counts = {}

local function sm_count(device)
  if device.is_emulator then return nil end
  local name = device.name
  sm_counts[name] = sm_counts[name] or device.properties.sm_count
  return sm_counts[name]
end

local function problem_of(a, b, out, opts)
  check_options(opts)
  if a == nil or b == nil then fail("'%s' must be an array, got nil", a == nil and "a" or "b") end
  for name, x in pairs { a = a, b = b } do
    if not arguments.is_array(x) then fail("'%s' must be an array, got %s", name, arguments.describe(x)) end
    if x.rank ~= 2 then fail("'%s' must have two dimensions, it has shape %s", name, shape_text(x.shape)) end
  end
  local M, K = a.shape[1], a.shape[2]
  local N = b.shape[opts.transpose_b and 1 or 2]
  check_array("b", b, opts.transpose_b and { N, K } or { K, N })
  if out ~= nil then check_array("out", out, { M, N }) end
  local device = a.device
  local problem = {
    M = M, N = N, K = K, dtype = a.dtype, dtype_b = b.dtype ~= a.dtype and b.dtype or nil,
    out_dtype = out and out.dtype, transpose_b = opts.transpose_b, epilogue = opts.epilogue,
    accumulate_f32 = opts.accumulate_f32, target = device.target,
    sms = sm_count(device),
  }
  local shapes = { bias = { N }, residual = { M, N }, row_scale = { M }, column_scale = { N } }
  for name, shape in pairs(shapes) do
    if opts[name] then
      check_array(name, opts[name], shape)
      problem[name] = opts[name].dtype
    end
  end
  return complete(problem)
end

local vectors = { "bias", "row_scale", "column_scale", "residual" }

local function launch(kernel_of, a, b, out, opts)
  local first, second, third, fourth
  for _, name in ipairs(vectors) do
    local x = opts[name]
    if x then
      if not first then first = x elseif not second then second = x elseif not third then third = x else fourth = x end
    end
  end
  if not first then return kernel_of(a, b, out) end
  if not second then return kernel_of(a, b, first, out) end
  if not third then return kernel_of(a, b, first, second, out) end
  if not fourth then return kernel_of(a, b, first, second, third, out) end
  return kernel_of(a, b, first, second, third, fourth, out)
end

local function call(a, b, out, opts)
  local problem = problem_of(a, b, out, opts)
  local entry = cached(problem, opts.config)
  out = out or tc.empty({ problem.M, problem.N }, problem.out_dtype, { device = a.device })
  launch(entry.kernel, a, b, out, opts)
  return out, entry.kernel
end

--- The last call with each table of options: the same arrays with an unchanged table are launched again at once.
-- Neither the options nor the arrays are kept alive by it.
local last_calls = setmetatable({}, { __mode = "k" })
local no_options = {}

local TRIED = 12 -- candidates that matmul.tune measures

--- Measures the model's best candidates on these arrays; calls for the same problem take the winner from then on.
function matmul.tune(a, b, out, opts, tuning)
  opts = opts or {}
  local problem = problem_of(a, b, out, opts)
  local configs = {}
  for i, candidate in ipairs(model.candidates(problem, searched)) do
    if i > TRIED then break end
    configs[i] = candidate.config
  end
  local arrays = { a, b }
  for _, name in ipairs(vectors) do arrays[#arrays + 1] = opts[name] end
  arrays[#arrays + 1] = out
  local settings = { name = ("matmul %dx%dx%d %s"):format(problem.M, problem.N, problem.K, problem.dtype.short) }
  for key, value in pairs(tuning or {}) do settings[key] = value end
  local best, _, results = tc.autotune(configs, function(config) return cached(problem, config).kernel end, arrays,
    settings)
  cache[key_of(problem)] = cached(problem, best)
  for key in pairs(last_calls) do last_calls[key] = nil end
  return best, results
end

--- The call is the last one with these options again; without a loop over their names, since every launch asks.
local function again(last, a, b, out, opts)
  return last.a == a and last.b == b and last.out == out and last.transpose_b == opts.transpose_b
    and last.epilogue == opts.epilogue and last.bias == opts.bias and last.residual == opts.residual
    and last.row_scale == opts.row_scale and last.column_scale == opts.column_scale
    and last.accumulate_f32 == opts.accumulate_f32 and last.config == opts.config
end

arguments.public(matmul)

setmetatable(matmul, {
  __index = function(_, name) arguments.missing("tc.matmul", name, matmul) end,
  __tostring = function()
    local functions = {}
    for name in pairs(matmul) do functions[#functions + 1] = tostring(name) end
    table.sort(functions)
    return "tc.matmul(a, b, out?, opts?), and " .. table.concat(functions, ", ")
  end,
  __call = core.entry_point(function(_, a, b, out, opts)
    opts = opts or no_options
    local last = last_calls[opts]
    if last and again(last, a, b, out, opts) then
      if last.plain then last.kernel(a, b, out) else launch(last.kernel, a, b, out, opts) end
      return out
    end
    arguments.check(type(opts) == "table", 4, "matmul", "options table", opts)
    local result, kernel_of = call(a, b, out, opts)
    -- A table `config` could change unseen.
    if out and not opts.config then
      last = setmetatable({ a = a, b = b, out = out, kernel = kernel_of, plain = true }, { __mode = "v" })
      for _, name in ipairs(vectors) do last.plain = last.plain and not opts[name] end
      for name in pairs(options_known) do last[name] = opts[name] end
      last_calls[opts] = last
    end
    return result
  end),
})

documentation.add("tcmma", {
  { "matmul", matmul, [[
matmul(a: tcmma.array, b: tcmma.array, out?: tcmma.array, opts?: MatmulOptions) -> tcmma.array
out (M, N) = epilogue(a (M, K) @ b (K, N)), by a kernel that is made for the shape and kept; `require "tcmma.matmul"`.
Any M, N, K whose rows are multiples of 16 bytes; float16, bfloat16 or 8-bit floats. Without `out` the result is a new
array of the type of `a` (bfloat16 for 8-bit floats).

The epilogue, in float32: times `row_scale[m]`, times `column_scale[n]`, plus `bias[n]`, then the function `epilogue`,
then plus `residual[m][n]`; then rounded to the type of `out`. Options:
- `transpose_b` (false): `b` is stored as (N, K); 8-bit operands on Hopper need it
- `epilogue`: `"relu"`, `"gelu"` (the tanh form), `"silu"`, `"sigmoid"`, or a function of a fragment
- `bias`, `column_scale` (N), `row_scale` (M), `residual` (M, N): arrays
- `accumulate_f32` (true): false accumulates float16 operands in float16; on Hopper, true given for 8-bit operands
  adds the tensor core's short sums to float32 after each 128 of K
- `config`: a configuration, or a part of one, instead of the cost model's: `tile_m`, `tile_n`, `tile_k`, `stages`,
  `group` (rows of tiles walked together), `swap` (rows of the accumulator run over N), `split_k`, `cluster` (CTAs above
  each other that share b by multicast), `cluster_n` (CTAs beside each other that share a), `piece` (bytes of a row that
  the epilogue moves at once), `slots` (its buffers), `ctas` (most CTAs of the grid; else as many as run
  at once)]] },
})

documentation.add("tcmma.matmul", {
  { "tune", matmul.tune, [[
tune(a: tcmma.array, b: tcmma.array, out: tcmma.array, opts?: MatmulOptions, tuning?: AutotuneOptions) -> table, table
Measures the model's best candidates with `tc.autotune` and makes `matmul` take the winner for this problem. Returns
the configuration and all results.]] },
  { "kernel", matmul.kernel, [[
kernel(problem: table, config?: table) -> tcmma.kernel, table
The kernel for a problem without arrays, and its complete configuration. `problem` has `M`, `N`, `K`, `dtype`, and
what differs from the defaults: `out_dtype`, `transpose_b`, `epilogue`, `target`, `accumulate_f32`, and the dtypes of
`bias`, `residual`, `row_scale`, `column_scale`. The kernel takes the arrays a, b, those, out, in this order.]] },
  { "choose", matmul.choose, [[
choose(problem: table, config?: table) -> table
The configuration that a problem gets: `tile_m`, `tile_n`, `tile_k`, `stages`, `group`, `swap`, `split_k`, `cluster`,
`cluster_n`, `piece`, `slots`. A partial `config` is completed; `ctas` is there only if it was given.]] },
  { "candidates", matmul.candidates, [[
candidates(problem: table) -> table[]
Every configuration that fits, best first by the cost model: `{config=, microseconds=, terms=}`, to be given to
`tc.autotune`.]] },
  { "describe", matmul.describe, [[
describe(config: table) -> string
A configuration in words: "128x256x64 s4 g8".]] },
})

return matmul
