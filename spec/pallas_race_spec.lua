-- What Pallas' race detection tests on its interpreter, as kernels of this module: a correct one, of which the emulator
-- must report nothing, beside each that lacks a single call.
local tc = require "tcmma"
local races = require "pallas_race_kernels"
local rules_of = require "hazard_mutation".rules_of

local function normal(shape, dtype, seed) return tc.randn(shape, dtype, { seed = seed }) end
local function zeros(shape, dtype) return tc.zeros(shape, dtype or tc.f32) end
local function product() return normal({ 128, 64 }, tc.f16, 1), normal({ 64, 64 }, tc.f16, 2), zeros{ 128, 64 } end
local function two_steps() return normal({ 128, 128 }, tc.f16, 1), normal({ 128, 64 }, tc.f16, 2), zeros{ 128, 64 } end
local function tiles() return normal({ 128, 64 }, tc.f32, 1), zeros{ 256, 64 } end
local function ring() return normal({ 256, 256 }, tc.f16, 1), normal({ 256, 64 }, tc.f16, 2), zeros{ 256, 64 } end
local function halves() return normal({ 128, 64 }, tc.f16, 1), normal({ 64, 64 }, tc.f16, 2), zeros{ 256, 64 } end
local function counted() return normal({ 128, 64 }, tc.f32, 1), zeros{ 128, 64 }, zeros({ 1 }, tc.i32) end

local function report(make, arguments, mode)
  return make():emulate({ target = "sm_100a", mode = mode, seed = 5 }, arguments())
end

local function silent(title, make, arguments)
  it(title .. " is silent", function()
    for _, mode in ipairs{ "check", "random" } do assert.are.same({}, rules_of(report(make, arguments, mode))) end
  end)
end

local function reported(title, rule, make, arguments)
  it(title .. ": " .. rule, function()
    local rules = rules_of(report(make, arguments, "check"))
    for _, found in ipairs(rules) do
      if found == rule then return end
    end
    error("reported is: " .. table.concat(rules, " "))
  end)
end

local function family(name, make, arguments, without)
  describe(name, function()
    silent("with every call", function() return make() end, arguments)
    for call, rule in pairs(without) do
      reported("without " .. call, rule, function() return make(call) end, arguments)
    end
  end)
end

describe("tcgen05:", function()
  family("a product from GMEM to GMEM", races.matmul, product,
    { load = "copy-not-awaited", commit_smem = "proxy-fence" })
  family("a product of an A in SMEM that threads wrote", function(call) return races.written("smem", call) end, product,
    { commit_smem = "proxy-fence", wait_load_tmem = "tcgen05-ld-not-awaited" })
  family("a product of an A in TMEM that threads wrote", function(call) return races.written("tmem", call) end, product,
    { commit_tmem = "tcgen05-st-not-awaited", wait_load_tmem = "tcgen05-ld-not-awaited" })
  family("two products through one slot", races.slot, two_steps, { consumed = "mma-not-awaited" })
  -- Without `consumed`, the copies complete a phase of `loaded` that they have begun twice.
  family("a ring of slots and an accumulator of three roles", races.pipelined, ring,
    { loaded = "copy-not-awaited", consumed = "mbarrier-over-arrival", store_done = "tmem-race" })
  family("a tile of TMEM between two warpgroups", function(call) return races.roles("tmem", call) end, tiles,
    { arrive = "tmem-race", release = "tmem-race" })

  it("a product that nobody awaits before it is read is refused", function()
    for make, call in pairs{ [races.matmul] = "mma", [races.pipelined] = "mma_done" } do
      local ok, message = pcall(make, call)
      assert.is_false(ok)
      assert.matches("is read before anything has waited for the tc.mma that writes it", message, 1, true)
    end
  end)

  silent("an MMA beside a load of another accumulator", function() return races.unordered "overlap" end, halves)
  silent("two MMAs on one accumulator", function() return races.unordered "accumulator" end, halves)
  silent("a slot of TMEM of each of two warpgroups", function() return races.unordered "halves" end, halves)
end)

describe("Other memory:", function()
  family("tiles on their way to GMEM", races.stores, tiles,
    { wait_smem_to_gmem = "shared-race", commit_smem = "proxy-fence" })
  -- The writer completes the barrier twice, and the reader misses a phase.
  family("a tile of SMEM between two warpgroups", function(call) return races.roles("smem", call) end, tiles,
    { arrive = "shared-race", release = "deadlock" })
  family("GMEM between two CTAs", races.semaphore, counted, { wait = "global-race-clusters" })
  silent("a tile that two warpgroups read", function() return races.unordered "readers" end, halves)
end)
