-- Hazards of operands on their way to the tensor core: each way to spoil a correct emitted kernel must give the rule
-- that names it.  Numbers are those of the catalogue in spec/hazard_spec.lua.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local emitted = require "hazard_emitted"
local kernels = require "compiler_kernels"
local mma = require "mma_kernels"
local mutation = require "hazard_mutation"
local drop, replace = mutation.drop, mutation.replace

-- A comes through registers, B by a copy.
local function staged()
  return tc.kernel {
    name = "staged", args = { tc.gmem({ 128, 64 }, "f16"), tc.gmem({ 64, 64 }, "f16"), tc.gmem({ 128, 64 }, "f32") },
    body = function(a, b, out)
      local sa, sb, acc = tc.smem({ 128, 64 }, "f16"), tc.smem({ 64, 64 }, "f16"), tc.tmem({ 128, 64 }, "f32")
      local loaded, done = tc.barrier {}, tc.barrier { orders_tensor_core = true }
      tc.copy_gmem_to_smem(b, sb, loaded)
      sa:store(a:load() * 2)
      tc.commit_smem()
      tc.barrier_wait(loaded)
      tc.mma(acc, sa, sb, { accumulate = false, barrier = done })
      tc.barrier_wait(done)
      out:store(tc.async_load_tmem(acc))
    end,
  }
end

local function matrices(m, n, k, dtype)
  return { tc.ones({ m, k }, dtype), tc.ones({ k, n }, dtype), tc.zeros({ m, n }, tc.f32) }
end

local cases = {
  staged = { staged, function() return matrices(128, 64, 64, tc.f16) end },
  tensor = { function() return kernels.tile { m = 128, n = 64, k = 64, a_tmem = true } end,
             function() return matrices(128, 64, 64, tc.f16) end },
  scaled = {
    function()
      return mma.tile { m = 128, n = 64, k = 128, a = tc.e4m3, b = tc.e4m3, d = tc.f32, scale = tc.e8m0, block = 32,
                        b_transposed = true }
    end,
    function()
      local a, b, out = tc.ones({ 128, 128 }, tc.e4m3), tc.ones({ 64, 128 }, tc.e4m3), tc.zeros({ 128, 64 }, tc.f32)
      return { a, b, out, tc.interleave_scales(mma.scales(128, 4, tc.e8m0, 3)),
               tc.interleave_scales(mma.scales(64, 4, tc.e8m0, 4)) }
    end,
  },
}

-- { number, what is spoilt, kernel, target, how, rules }
local rows = {
  { "B31", "no proxy fence before an MMA reads what threads have stored", "staged", "sm_100a",
    function(t) return drop(t, "fence.proxy.async") end, { "proxy-fence" } },
  { "B31", "no proxy fence before a wgmma reads what threads have stored", "staged", "sm_90a",
    function(t) return drop(t, "fence.proxy.async") end, { "proxy-fence" } },
  { "C51", "no tcgen05.wait::st before an MMA reads A from tensor memory", "tensor", "sm_100a",
    function(t) return drop(t, "tcgen05.wait::st") end, { "tcgen05-st-not-awaited" } },
  { "C72", "no factors are copied", "scaled", "sm_100a",
    function(t) return drop(t, "tcgen05.cp") end, { "undefined-tmem" } },
  { "C72", "the factors of B lie elsewhere", "scaled", "sm_100a",
    function(t) return (t:gsub("%[%%tmem%+72%], 0;", "[%%tmem+96], 0;")) end, { "undefined-tmem" } },
  { "C74", "another thread copies the factors", "scaled", "sm_100a",
    function(t)
      t = replace(t, ".reg .pred %first", "%first", "%other, %first")
      return (t:gsub("(\t@!%%leader_main bra L5;\n)(\tmov[^\n]*\n\tmov[^\n]*\n)\t(tcgen05%.cp[^\n]*\n)",
        "\tsetp.eq.u32 %%other, %%thread, 32;\n%2\t@%%other %3%1"))
    end, { "undefined-tmem", "mma-not-awaited" } },
}

describe("on the way to the tensor core", function()
  for name, case in pairs(cases) do
    for _, target in ipairs(name == "staged" and { "sm_100a", "sm_90a" } or { "sm_100a" }) do
      for _, mode in ipairs { "check", "random" } do
        it(("kernel '%s' of %s is silent in mode %s"):format(name, target, mode), function()
          local report = emitted.run(case[1](), target, emitted.nothing, case[2](), mode)
          assert.same({}, mutation.rules_of(report))
          assert.is_true(report.completed)
        end)
      end
    end
  end

  -- No rule is broken: only the values are.
  for _, row in ipairs {
    { "C73: the factors of A and B exchanged", function(t)
      return (t:gsub("%[%%tmem%+64%], %[%%tmem%+72%]", "[%%tmem+72], [%%tmem+64]"))
    end },
    { "C63: A negated", function(t) return (t:gsub("0x8900000", "0x8902000")) end },
  } do
    it(row[1] .. ", which shows in the result", function()
      local make, arguments = table.unpack(cases.scaled)
      local right, wrong = arguments(), arguments()
      assert.same({}, mutation.rules_of(emitted.run(make(), "sm_100a", emitted.nothing, right)))
      emitted.run(make(), "sm_100a", row[2], wrong)
      assert.is_false(wrong[3]:equal(right[3]))
    end)
  end

  for _, row in ipairs(rows) do
    local number, what, name, target, spoil, rules = table.unpack(row)
    it(("%s: %s"):format(number, what), function()
      local case = cases[name]
      assert.same(rules, mutation.rules_of(emitted.run(case[1](), target, spoil, case[2]())))
    end)
  end
end)
