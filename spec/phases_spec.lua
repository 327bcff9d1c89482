-- A role of several warps is one thread to its user: its leader may not complete a phase whose
-- predecessor another of its warps has not seen yet (DESIGN 5.5). Kernels that need that, in the
-- emulator's three modes; random mode lets the leader run ahead.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local T = 128

-- One role of `warps` copies, issues MMAs and waits for both; `stages` slots, refilled as soon as
-- the MMA that read them is complete. Roleless when `warps` is nil.
local function ring(o)
  local K = 64 * o.steps
  return tc.kernel{
    name = "ring", grid = { 1 }, grid_names = { "x" },
    args = { tc.gmem({ T, K }, tc.float16), tc.gmem({ K, 64 }, tc.float16), tc.gmem({ T, 64 }, tc.float32) },
    body = function(a, b, out)
      local a_smem, b_smem = tc.smem({ o.stages, T, 64 }, tc.float16), tc.smem({ o.stages, 64, 64 }, tc.float16)
      local acc = tc.tmem({ T, 64 }, tc.float32)
      local loaded = tc.barrier{ num_arrivals = 2, num_barriers = o.stages }
      local consumed = tc.barrier{ num_barriers = o.stages, orders_tensor_core = true }
      local done = tc.barrier{ orders_tensor_core = true }
      local function load(k, slot)
        tc.copy_gmem_to_smem(a:tile({ 0, k }, { T, 64 }), a_smem[slot], loaded[slot])
        tc.copy_gmem_to_smem(b:tile({ k, 0 }, { 64, 64 }), b_smem[slot], loaded[slot])
      end
      local function mainloop()
        for k = 0, math.min(o.stages, o.steps) - 1 do load(k, k) end
        tc.range(o.steps, function(k)
          local slot = k % o.stages
          tc.barrier_wait(loaded[slot])
          tc.mma(acc, a_smem[slot], b_smem[slot], { barrier = consumed[slot], accumulate = k:gt(0) })
          tc.when((k + o.stages):lt(o.steps), function()
            tc.barrier_wait(consumed[slot])
            load(k + o.stages, slot)
          end)
        end)
        tc.commit_arrive(done)
      end
      local function epilogue()
        tc.barrier_wait(done)
        out:store(tc.async_load_tmem(acc))
      end
      if not o.warps then
        mainloop()
        epilogue()
      else
        tc.role{ name = "work", warps = o.warps }(mainloop)
        tc.role{ name = "epilogue", warpgroups = 1 }(epilogue)
      end
    end,
  }
end

-- A role of two warps copies, one of one warp frees its slots at once: the leader's copy completes
-- the next phase by way of another role.
local function relay(stages, steps)
  return tc.kernel{
    name = "relay", grid = { 1 }, grid_names = { "x" },
    args = { tc.gmem({ steps, 32 }, tc.int32), tc.gmem({ steps, 32 }, tc.int32) },
    body = function(a, out)
      local smem = tc.smem({ stages, 32 }, tc.int32)
      local loaded = tc.barrier{ num_barriers = stages }
      local freed = tc.barrier{ num_barriers = stages }
      tc.role{ name = "load", warps = 2 }(function()
        tc.range(steps, function(i)
          tc.when(i:ge(stages), function() tc.barrier_wait(freed[i % stages]) end)
          tc.copy_gmem_to_smem(a[i], smem[i % stages], loaded[i % stages])
        end)
      end)
      tc.role{ name = "store", warps = 1 }(function()
        tc.range(steps, function(i)
          tc.barrier_wait(loaded[i % stages])
          out[i][0]:store(smem[i % stages][31]:load())
          tc.barrier_arrive(freed[i % stages])
        end)
      end)
    end,
  }
end

local modes = { { mode = "fast" }, { mode = "check" } }
for seed = 1, 6 do modes[#modes + 1] = { mode = "random", seed = seed } end

local function options(mode, target)
  return { target = target, mode = mode.mode, seed = mode.seed }
end

local function barriers(text, role)
  local body = text:match("// role " .. role .. ":.*") or text
  local count = 0
  for _ in body:gmatch "bar%.sync %d+, %d+;" do count = count + 1 end
  return count
end

describe("phases that every warp of a role sees", function()
  for _, warps in ipairs{ 0, 1, 2, 3 } do
    for stages = 1, 3 do
      local name = warps == 0 and "no roles" or ("a role of %d warps"):format(warps)
      it(("%s, %d stages"):format(name, stages), function()
        local steps = stages + 4
        local kernel = ring{ warps = warps > 0 and warps or nil, stages = stages, steps = steps }
        local a = kernels.integers({ T, 64 * steps }, tc.float16, 1)
        local b = kernels.integers({ 64 * steps, 64 }, tc.float16, 2)
        local expected = tc.reference.matmul(a, b)
        for _, target in ipairs{ "sm_90a", "sm_100a" } do
          for _, mode in ipairs(modes) do
            local out = tc.zeros({ T, 64 }, tc.float32)
            kernels.run(kernel, options(mode, target), a, b, out)
            assert.are.equal(0, (tc.max_error(out, expected)))
          end
        end
      end)
    end
  end

  for stages = 1, 3 do
    for _, target in ipairs{ "sm_90a", "sm_100a" } do
      it(("by way of another role, %d stages, %s"):format(stages, target), function()
        local steps = 3 * stages + 2
        local kernel, a = relay(stages, steps), kernels.integers({ steps, 32 }, tc.int32, 1)
        for _, mode in ipairs(modes) do
          local out = tc.zeros({ steps, 32 }, tc.int32)
          kernels.run(kernel, options(mode, target), a, out)
          for i = 1, steps do assert.are.equal(a:totable()[i][32], out:totable()[i][1]) end
        end
      end)
    end
  end
end)

describe("a role barrier for phases", function()
  it("stands once in each step, before the copies", function()
    local text = ring{ stages = 3, steps = 8 }:ptx{ target = "sm_100a" }
    assert.are.equal(1, barriers(text, "main"))
  end)

  it("stands nowhere in a loop whose arrivals every warp makes", function()
    local text = kernels.matmul{ stages = 3, m = 128, n = 128, k = 512 }:ptx{ target = "sm_90a" }
    local loop = text:match "barrier_wait.-wgmma%.commit_group.-bra"
    assert.is_truthy(loop)
    assert.are.equal(0, barriers(loop, "none"))
  end)

  it("costs roles of one warp nothing", function()
    local text = ring{ warps = 1, stages = 3, steps = 8 }:ptx{ target = "sm_100a" }
    assert.is_nil(text:find "bar%.sync %d+, 32;")
    assert.are.equal(0, barriers(text, "work"))
  end)

  it("is not there where nothing comes back to the role", function()
    local kernel = tc.kernel{
      name = "once", grid = { 1 }, grid_names = { "x" }, args = { tc.gmem({ 2, 32 }, tc.int32) },
      body = function(a)
        local smem, first, second = tc.smem({ 2, 32 }, tc.int32), tc.barrier{}, tc.barrier{}
        tc.copy_gmem_to_smem(a[0], smem[0], first)
        tc.barrier_wait(first)
        tc.copy_gmem_to_smem(a[1], smem[1], second)
        tc.barrier_wait(second)
      end,
    }
    assert.are.equal(0, barriers(kernel:ptx{ target = "sm_90a" }, "main"))
  end)
end)
