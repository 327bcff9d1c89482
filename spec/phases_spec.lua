-- A role of several warps is one thread to its user: its leader may not complete a phase whose
-- predecessor another of its warps has not seen yet (docs/semantics.md 5). Kernels that need that, in the
-- emulator's three modes; random mode lets the leader run ahead.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local T = 128

-- One role of `warps` copies, issues MMAs and waits for both; `stages` slots, refilled as soon as
-- the MMA that read them is complete. Roleless when `warps` is nil.
local function matmul_ring(o)
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
        local kernel = matmul_ring{ warps = warps > 0 and warps or nil, stages = stages, steps = steps }
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

-- Roles in a chain: role i takes tiles out of ring i and copies others into ring i + 1, each ring
-- released by its consumer, in a cluster by the consumers of all CTAs.
local function chain(o)
  local n, count = o.steps, #o.rings
  local cluster = o.ctas > 1
  return tc.kernel{
    name = "chain", cluster = { o.ctas }, cluster_names = { "cta" },
    args = { tc.gmem({ n * 16, 64 }, tc.float16), tc.gmem({ o.ctas * count * n * 16, 64 }, tc.float16) },
    body = function(a, out)
      local first = tc.axis_index "cta" * count
      local smem, full, free = {}, {}, {}
      for i, ring in ipairs(o.rings) do
        smem[i] = tc.smem({ ring.depth, 16, 64 }, tc.float16)
        full[i] = tc.barrier{ num_barriers = ring.depth, num_arrivals = ring.arrives and 2 or 1 }
        free[i] = cluster and tc.cluster_barrier{ collective_axes = "cta", num_barriers = ring.depth }
          or tc.barrier{ num_barriers = ring.depth }
      end
      local function produce(i, k)
        local ring, slot = o.rings[i], k % o.rings[i].depth
        tc.when(k:ge(ring.depth), function() tc.barrier_wait(free[i][slot]) end)
        tc.copy_gmem_to_smem(a:tile({ k, 0 }, { 16, 64 }), smem[i][slot], full[i][slot],
          { collective_axes = cluster and "cta" or nil })
        if ring.arrives then tc.barrier_arrive(full[i][slot]) end
      end
      local function consume(i, k)
        local slot, to = k % o.rings[i].depth, out:tile({ (first + (i - 1)) * n + k, 0 }, { 16, 64 })
        tc.barrier_wait(full[i][slot])
        if o.rings[i].fragments then
          to:store(smem[i][slot]:load())
        else
          tc.copy_smem_to_gmem(smem[i][slot], to)
          tc.wait_smem_to_gmem(0, { wait_read_only = true })
        end
        tc.barrier_arrive(free[i][slot])
      end
      for i = 0, count do
        local ring = o.rings[i] or o.first
        local role = ring.fragments and tc.role{ name = "role" .. i, warpgroups = 1 }
          or tc.role{ name = "role" .. i, warps = ring.warps }
        role(function()
          tc.range(n, function(k)
            if i > 0 and ring.consumes_first then consume(i, k) end
            if i < count then produce(i + 1, k) end
            if i > 0 and not ring.consumes_first then consume(i, k) end
          end)
        end)
      end
    end,
  }
end

describe("chains of roles", function()
  local state = 12345
  local function random(low, high)
    state = (state * 1103515245 + 12345) % 2147483648
    return low + state // 65536 % (high - low + 1)
  end
  for number = 1, 24 do
    local o = { steps = random(3, 9), ctas = random(1, 2), first = { warps = random(1, 4) }, rings = {} }
    local title = ("%d: %d steps, %d CTAs, %d"):format(number, o.steps, o.ctas, o.first.warps)
    for i = 1, random(1, 3) do
      o.rings[i] = { depth = random(1, 3), warps = random(1, 4), fragments = random(1, 3) == 1,
        consumes_first = random(0, 1) == 1, arrives = random(1, 3) == 1 }
      title = title .. (" - %d slots - %d"):format(o.rings[i].depth, o.rings[i].fragments and 4 or o.rings[i].warps)
    end
    local target = random(0, 1) == 0 and "sm_90a" or "sm_100a"
    it(title .. " warps, " .. target, function()
      local kernel, a = chain(o), kernels.integers({ o.steps * 16, 64 }, tc.float16, number)
      local rows, expected = o.ctas * #o.rings * o.steps * 16, a:totable()
      for _, mode in ipairs(modes) do
        local out = tc.zeros({ rows, 64 }, tc.float16)
        kernels.run(kernel, options(mode, target), a, out)
        local got = out:totable()
        for r = 1, rows do assert.are.same(expected[(r - 1) % (o.steps * 16) + 1], got[r]) end
      end
    end)
  end
end)

describe("a role barrier for phases", function()
  it("stands once in each step, before the copies", function()
    local text = matmul_ring{ stages = 3, steps = 8 }:ptx{ target = "sm_100a" }
    assert.are.equal(1, barriers(text, "main"))
  end)

  it("stands nowhere in a loop whose arrivals every warp makes", function()
    local text = kernels.matmul{ stages = 3, m = 128, n = 128, k = 512 }:ptx{ target = "sm_90a" }
    local loop = text:match "barrier_wait.-wgmma%.commit_group.-bra"
    assert.is_truthy(loop)
    assert.are.equal(0, barriers(loop, "none"))
  end)

  it("costs roles of one warp nothing", function()
    local text = matmul_ring{ warps = 1, stages = 3, steps = 8 }:ptx{ target = "sm_100a" }
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
