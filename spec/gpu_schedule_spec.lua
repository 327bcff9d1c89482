-- Needs a GPU: `make check-gpu`.  Scheduling, pipelines, reductions on store, semaphores and dependent launches run
-- there as on the emulator.
local tc = require "tcmma"

local gpu = tc.device(os.getenv("TCMMA_DEVICE") or "cuda:0")
local on_gpu = gpu and it or pending
local atomics = require "atomic_kernels"
local kernels = require "compiler_kernels"
local schedules = require "schedule_kernels"
local pipelines = require "pipeline_kernels"

local function on_device(array) return array:to(gpu) end

local function zeros(shape, dtype) return tc.zeros(shape, dtype, { device = gpu }) end

local function integers(shape, dtype, seed) return kernels.integers(shape, dtype, seed) end

describe("a GPU #gpu", function()
  for _, cluster in ipairs{ false, 2 } do
    on_gpu(("does each element of a dynamic loop once, cluster %s"):format(cluster or 1), function()
      for _, roles in ipairs{ false, true } do
        local kernel, total = schedules.counting{ grid = { 37, 11 }, cluster = cluster or nil, roles = roles }
        local out, seen = zeros({ total }, tc.int32), zeros({ total }, tc.int32)
        kernel(out, seen)
        for _, n in ipairs(out:totable()) do assert.are.equal(1, n) end
      end
    end)
  end

  for _, case in ipairs{ { m = 1000, n = 712, k = 520, walk = "dynamic" },
                         { m = 1000, n = 712, k = 520, walk = "nd", workers = 7, snake = 3 } } do
    on_gpu("multiplies, " .. case.walk, function()
      local a, b = integers({ case.m, case.k }, tc.bfloat16, 1), integers({ case.k, case.n }, tc.bfloat16, 2)
      local out = zeros({ case.m, case.n }, tc.float32)
      schedules.persistent(case)(on_device(a), on_device(b), out)
      assert.are.equal(0, (tc.max_error(out, tc.reference.matmul(a, b))))
    end)
  end

  for _, specialized in ipairs{ false, true } do
    on_gpu(("streams blocks, %s"):format(specialized and "warp-specialised" or "in one role"), function()
      for _, steps in ipairs{ 1, 3 } do
        for _, columns in ipairs{ 64, 256 } do
          local o = { rows = 512, columns = columns, steps = steps, specialized = specialized, runs = 2 }
          local a, bias = integers({ 512, columns }, tc.float32, 1), integers({ 1, columns }, tc.float32, 2)
          local out, expected = zeros({ 512, columns }, tc.float32), tc.zeros({ 512, columns }, tc.float32)
          local kernel = pipelines.scaled(o)
          kernel(on_device(a), on_device(bias), out)
          kernel:emulate({ target = gpu.target }, a, bias, expected)
          assert.are.equal(0, (tc.max_error(out, expected)))
        end
      end
    end)
  end

  for _, cluster in ipairs{ false, 2 } do
    on_gpu(("feeds a matmul, cluster %s"):format(cluster or 1), function()
      local case = { m = 512, n = 256, k = 448, cluster = cluster or nil }
      local a, b = integers({ case.m, case.k }, tc.bfloat16, 1), integers({ case.k, case.n }, tc.bfloat16, 2)
      local out = zeros({ case.m, case.n }, tc.float32)
      pipelines.matmul(case)(on_device(a), on_device(b), out)
      assert.are.equal(0, (tc.max_error(out, tc.reference.matmul(a, b))))
    end)
  end

  for _, case in ipairs{ { tc.float32, "add" }, { tc.float16, "max" }, { tc.bfloat16, "add" }, { tc.int32, "umin" },
                         { tc.uint32, "smax" }, { tc.int64, "add" }, { tc.uint64, "umin" }, { tc.int32, "xor" },
                         { tc.int64, "smin" }, { tc.uint32, "inc" } } do
    on_gpu(("reduces on store: %s of %s"):format(case[2], case[1]), function()
      local kernel = tc.kernel{
        name = "reduction", args = { tc.gmem({ 48, 64 }, case[1]), tc.gmem({ 16, 64 }, case[1]) },
        grid = { 3 }, grid_names = { "x" },
        body = function(a, out)
          local tile, loaded = tc.smem({ 16, 64 }, case[1]), tc.barrier{}
          tc.copy_gmem_to_smem(a:tile({ tc.axis_index "x", 0 }, { 16, 64 }), tile, loaded)
          tc.barrier_wait(loaded)
          tc.copy_smem_to_gmem(tile, out, { reduction_op = case[2] })
          tc.wait_smem_to_gmem(0)
        end,
      }
      local counts = case[2] == "inc"
      local a = counts and tc.full({ 48, 64 }, 9, case[1]) or integers({ 48, 64 }, tc.int32, 5):astype(case[1])
      local before = integers({ 16, 64 }, tc.int32, 6):astype(case[1])
      local here, there = on_device(before), before:copy()
      kernel(on_device(a), here)
      kernel:emulate({ target = gpu.target }, a, there)
      assert.same(there:totable(), here:totable())
    end)
  end

  on_gpu("runs a pipeline of pipelines", function()
    for _, o in ipairs{ { rows = 384, columns = 128, turns = 3, steps = 3 },
                        { rows = 320, columns = 64, turns = 5, steps = 4, delay = 1 },
                        { rows = 384, columns = 128, turns = 4, steps = 5, computes = 2 } } do
      local a, scale, bias = integers({ o.rows, o.columns }, tc.float32, 1), integers({ 1, 64 }, tc.float32, 2),
        integers({ o.turns, 64 }, tc.float32, 3)
      local out, there = zeros({ o.rows, o.columns }, tc.float32), tc.zeros({ o.rows, o.columns }, tc.float32)
      local kernel = pipelines.turns(o)
      kernel(on_device(a), on_device(scale), on_device(bias), out)
      kernel:emulate({ target = gpu.target }, a, scale, bias, there)
      assert.are.equal(0, (tc.max_error(out, there)))
    end
    for steps = 2, 4 do
      local o = { m = 512, n = 384, k = 320, walk = "nd", workers = 5, steps = steps, overlaps = true }
      local a, b = integers({ o.m, o.k }, tc.bfloat16, 1), integers({ o.k, o.n }, tc.bfloat16, 2)
      local out = zeros({ o.m, o.n }, tc.float32)
      pipelines.tiles(o)(on_device(a), on_device(b), out)
      assert.are.equal(0, (tc.max_error(out, tc.reference.matmul(a, b))))
    end
  end)

  on_gpu("orders CTAs by a semaphore", function()
    local kernel = tc.kernel{
      name = "serial", args = { tc.gmem({ 64, 32 }, tc.int32), tc.gmem({ 2 }, tc.int32) }, grid = { 64 },
      grid_names = { "x" },
      body = function(out, sem)
        local x = tc.axis_index "x"
        tc.when(x:gt(0), function() tc.semaphore_wait(sem[0], x, { decrement = false, memory_scope = "gpu" }) end)
        out:store(out:load() * 3 + 1)
        tc.semaphore_signal(sem[0], 1, { memory_scope = "gpu" })
        tc.semaphore_wait(sem[1])
        tc.semaphore_signal(sem[1])
      end,
    }
    local out, sem = zeros({ 64, 32 }, tc.int32), on_device(tc.from_table({ 0, 1 }, tc.int32))
    kernel(out, sem)
    local x = 0
    for _ = 1, 64 do x = x * 3 + 1 & 0xffffffff end
    x = x >= 0x80000000 and x - (1 << 32) or x
    for _, row in ipairs(out:totable()) do
      for _, y in ipairs(row) do assert.are.equal(x, y) end
    end
    assert.same({ 64, 1 }, sem:totable())
  end)

  on_gpu("updates memory atomically", function()
    for dtype, updates in pairs{ [tc.float32] = { "atomic_add" }, [tc.float16] = { "atomic_add", "atomic_max" },
                                 [tc.bfloat16] = { "atomic_min" },
                                 [tc.int32] = { "atomic_add", "atomic_min", "atomic_xor" },
                                 [tc.uint32] = { "atomic_max", "atomic_and", "atomic_or" } } do
      for _, update in ipairs(updates) do
        for _, columns in ipairs{ 64, 6 } do
          local o = { update = update, dtype = dtype, rows = 64, columns = columns, ctas = 40 }
          local a = tc.randint({ 40 * 64, columns }, dtype, { low = 0, high = 9, seed = 1 })
          local before = tc.randint({ 64, columns }, dtype, { low = 0, high = 9, seed = 2 })
          local here, there = on_device(before), before:copy()
          local kernel = atomics.shared(o)
          kernel(on_device(a), here)
          kernel:emulate({ target = gpu.target }, a, there)
          assert.same(there:totable(), here:totable())
        end
      end
      if updates[1] == "atomic_add" then
        local o = { update = "atomic_add", dtype = dtype, rows = 16, columns = 64 }
        local a, out = tc.randint({ 64, 64 }, dtype, { low = 0, high = 9, seed = 3 }), zeros({ 16, 64 }, dtype)
        local there = tc.zeros({ 16, 64 }, dtype)
        local kernel = atomics.in_smem(o)
        kernel(on_device(a), out)
        kernel:emulate({ target = gpu.target }, a, there)
        assert.same(there:totable(), out:totable())
      end
    end
  end)

  on_gpu("gives out tickets, each once", function()
    for _, warpgroups in ipairs{ false, 1, 2 } do
      local next_ticket, done, by = zeros({ 1 }, tc.int32), zeros({ 5000 }, tc.int32), zeros({ 5000 }, tc.int32)
      atomics.queue{ count = 5000, ctas = 150, warpgroups = warpgroups or nil }(next_ticket, done, by)
      assert.are.equal(5150, next_ticket:get(0))
      for _, n in ipairs(done:totable()) do assert.are.equal(1, n) end
    end
  end)

  on_gpu("adds the parts of a matmul cut along K", function()
    local o = { m = 128, n = 64, k = 1024, parts = 16, out = tc.float32 }
    local a, b = integers({ 128, 1024 }, tc.float16, 1), integers({ 1024, 64 }, tc.float16, 2)
    local out = zeros({ 128, 64 }, tc.float32)
    atomics.split_k(o)(on_device(a), on_device(b), out)
    assert.are.equal(0, (tc.max_error(out, tc.reference.matmul(a, b))))
  end)

  on_gpu("tells CTAs by flags of their own, with one fence", function()
    local kernel = tc.kernel{
      name = "telling",
      args = { tc.gmem({ 64, 32 }, tc.int32), tc.gmem({ 32, 64, 32 }, tc.int32), tc.gmem({ 32 }, tc.int32) },
      grid = { 32 }, grid_names = { "x" },
      body = function(tile, out, flags)
        local x = tc.axis_index "x"
        tc.when(x:eq(0), function()
          tile:store(tc.iota({ 64, 32 }, 0, tc.int32))
          tc.semaphore_signal_parallel({ flags }, { memory_scope = "gpu" })
        end)
        tc.semaphore_wait(flags[x], 1, { memory_scope = "gpu" })
        out[x]:store(tile:load())
      end,
    }
    local out, flags = zeros({ 32, 64, 32 }, tc.int32), zeros({ 32 }, tc.int32)
    kernel(zeros({ 64, 32 }, tc.int32), out, flags)
    for _, tile in ipairs(out:totable()) do
      for i, row in ipairs(tile) do assert.are.equal(i - 1, row[9]) end
    end
    for _, n in ipairs(flags:totable()) do assert.are.equal(0, n) end
  end)

  on_gpu("starts a kernel under the end of the one before", function()
    local kernel = tc.kernel{
      name = "step", args = { tc.gmem({ 4096, 64 }, tc.int32), tc.gmem({ 4096, 64 }, tc.int32) }, grid = { 64 },
      grid_names = { "x" },
      body = function(a, out)
        local x = tc.axis_index "x"
        tc.griddepcontrol_launch_dependents()
        tc.griddepcontrol_wait()
        out:tile({ 63 - x, 0 }, { 64, 64 }):store(a:tile({ x, 0 }, { 64, 64 }):load() + 1)
      end,
    }
    local a, b = zeros({ 4096, 64 }, tc.int32), zeros({ 4096, 64 }, tc.int32)
    for _ = 1, 200 do
      kernel(a, b)
      kernel(b, a)
    end
    for _, row in ipairs(a:totable()) do
      for _, y in ipairs(row) do assert.are.equal(400, y) end
    end
  end)
end)
