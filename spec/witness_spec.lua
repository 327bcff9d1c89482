-- PTX of other compilers on the emulator: spec/witness/README.md says what the files are.
local tc = require "tcmma"
local witness = require "witness_kernels"

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
  local value = witness.evaluator(problem)
  local tensors = witness.tensors(manifest, value, case.exact)
  local report = witness.emulate(manifest, text, {
    args = witness.map(manifest.params, function(param) return witness.argument(param, value, tensors) end),
    problem = problem, grid = case.grid, mode = case.mode, numerics = case.numerics, seed = case.seed,
  })
  assert.equal("", hazards_of(report))
  assert.is_true(report.completed)
  local expected, out = witness.reference(tensors, problem)
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
    local manifest, text = witness.load(name)
    for _, case in ipairs(cases_of(manifest)) do
      it(case.title, function() run(manifest, text, case.case) end)
    end
  end)
end
