-- One object of every class and of every kind of table that the API returns, for specs that ask
-- the same of all of them.
local tc = require "tcmma"

local M = {}

M.ptx = [[.version 8.0
.target sm_90a
.address_size 64
.visible .entry f(.param .u64 p) { ret; }
]]

-- A kernel whose recording is open, and what belongs to it: lists of { name, object }.
function M.recorded()
  local k, a, numbers = tc.record { name = "every", args = { tc.gmem({ "M", 64 }, "f16"), tc.gmem({ 8 }, "i32") },
    grid = { 2, 3 }, grid_names = { "m", "n" }, cluster = { 2 }, cluster_names = { "c" } }
  local m, tmem = tc.axis_index "m", tc.tmem({ 128, 64 }, "f32")
  local smem, barriers = tc.smem({ 2, 128, 64 }, "f16"), tc.barrier { num_barriers = 3, name = "ring" }
  local warp, warpgroup = tc.role { name = "r", warps = 1 }, tc.role { name = "w", warpgroups = 1 }
  local list = {
    { "kernel", k }, { "argument", a }, { "numbers", numbers }, { "smem", smem }, { "slot", smem[0] },
    { "recorded slot", smem[m] }, { "tmem", tmem }, { "warp", warp }, { "warpgroup", warpgroup },
    { "var", tc.var(0) }, { "barriers", barriers }, { "barrier", barriers[1] }, { "recorded barrier", barriers[m] },
    { "cluster barrier", tc.cluster_barrier { collective_axes = "c" } },
    { "union", tc.union(tc.smem({ 128, 64 }, "f16"), tc.smem({ 128, 64 }, "f32")) },
    { "scalar", m }, { "sum", m + 1 }, { "predicate", m:lt(3) }, { "recorded slice", tc.ds(m, 4) },
    { "roles", k.roles }, { "grid_names", k.grid_names }, { "cluster_names", k.cluster_names },
    { "shape", a.shape }, { "smem shape", smem.shape },
  }
  warpgroup(function()
    local f = tc.async_load_tmem(tmem)
    table.move({ { "fragment", f }, { "bool fragment", f:lt(0) }, { "fragment var", tc.var(f) },
      { "fragment shape", f.shape } }, 1, 4, #list + 1, list)
  end)
  return list, k
end

-- A finished kernel that writes one element, and one that reads what nobody wrote.
function M.kernel()
  return tc.kernel { name = "one", args = { tc.gmem({ 4 }, "f32") }, profile = true,
    body = function(a) a[0] = 1 end }
end

function M.hazardous()
  return tc.kernel { name = "undefined", args = { tc.gmem({ 128, 64 }, "f16") }, body = function(a)
    local s = tc.smem({ 128, 64 }, "f16")
    tc.copy_smem_to_gmem(s, a)
    tc.wait_smem_to_gmem(0)
  end }
end

-- What belongs to no recording.
function M.plain()
  local module = tc.ptx(M.ptx)
  local k, array = M.kernel(), tc.zeros({ 64, 64 }, "f32")
  local _, comparison = tc.allclose(array, array)
  local _, measured = tc.bench(function() end, { repetitions = 2, device = "emulator" })
  local _, _, tried = tc.autotune({ { tile = 1 }, { tile = 2 } }, function() return function() end end, {},
    { repetitions = 1, warmup = 0, by = "time", cache = false })
  local report = k:emulate({ mode = "check", target = "sm_100a" }, tc.zeros({ 4 }, "f32"))
  local hazards = M.hazardous():emulate({ mode = "check", target = "sm_100a" }, tc.zeros({ 128, 64 }, "f16"))
  local problem = { M = 256, N = 256, K = 256, dtype = "f16", target = "sm_100a" }
  local info = k:info { target = "sm_100a" }
  local _, place = tc.from_table({ { 1, 2 }, { 3, 2 } }, "f32", { 2, 2 }):max()
  return {
    { "slice", tc.ds(0, 4) }, { "all", tc.all }, { "dtype", tc.f16 }, { "space", tc.SMEM },
    { "gmem", tc.gmem({ "M", 2 }, "f32") }, { "device", tc.device() }, { "stream", tc.device():stream() },
    { "event", tc.device():event() }, { "array", array }, { "array shape", array.shape },
    { "properties", tc.device().properties }, { "config", tc.config }, { "module", module },
    { "function", module:kernel "f" }, { "entries", module:kernels() }, { "entry", module:kernels()[1] },
    { "tensormap", tc.tensormap(array, { box = { 32, 64 }, swizzle = 128 }) },
    { "finished kernel", k }, { "report", report }, { "report with a hazard", hazards },
    { "hazards", hazards.hazards }, { "hazard", hazards.hazards[1] }, { "counters", hazards.counters },
    { "info", info }, { "lints", info.lints }, { "estimate", info.estimate },
    { "comparison", comparison }, { "measured", measured }, { "tried", tried }, { "place", place },
    { "dtypes", tc.dtypes() }, { "devices", tc.devices() }, { "versions", tc.versions() },
    { "settings", tc.settings() }, { "setting", tc.settings()[1] }, { "nearest", tc.nearest("zero", { "zeros" }) },
    { "documentation", tc.documentation() }, { "documented", tc.documentation()[1] },
    { "block_spec", tc.block_spec({ 4, 4 }, function() return 0, 0 end) },
    { "choice", tc.matmul.choose(problem) },
    { "candidates", tc.matmul.candidates(problem) }, { "candidate", tc.matmul.candidates(problem)[1] },
    { "tc", tc }, { "tc.npy", tc.npy }, { "tc.safetensors", tc.safetensors }, { "tc.matmul", tc.matmul },
    { "tc.reference", tc.reference },
  }
end

return M
