-- Atomic updates of memory from registers, against the same operation in Lua on each element.
local tc = require "tcmma"
local atomics = require "atomic_kernels"
local compiler = require "compiler_kernels"
local modes = require "modes"
local helper = require "helper"

local in_all_modes = modes.run

local function parts_of(array, rows)
  local list, parts = array:totable(), {}
  for i = 1, #list, rows do parts[#parts + 1] = table.move(list, i, i + rows - 1, 1, {}) end
  return parts
end

local function transposed(rows)
  local result = {}
  for j = 1, #rows[1] do
    result[j] = {}
    for i = 1, #rows do result[j][i] = rows[i][j] end
  end
  return result
end

local integer = { "atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xor" }
local updates = {
  [tc.float32] = { "atomic_add" }, [tc.float16] = { "atomic_add", "atomic_max", "atomic_min" },
  [tc.bfloat16] = { "atomic_add", "atomic_max", "atomic_min" }, [tc.int32] = integer, [tc.uint32] = integer,
}

local function instructions(kernel, target)
  local found = {}
  for text in kernel:ptx{ target = target }:gmatch "%f[%w]red%.([%w_.:]+)" do found[text] = (found[text] or 0) + 1 end
  return found
end

describe("An atomic update", function()
  for dtype, names in pairs(updates) do
    for _, update in ipairs(names) do
      for _, o in ipairs{ { rows = 64, columns = 64 }, { rows = 8, columns = 6 },
                          { rows = 16, columns = 32, transposed = true } } do
        it(("of GMEM: %s of %s, %d x %d%s"):format(update, dtype, o.rows, o.columns,
          o.transposed and ", transposed" or ""), function()
          local kernel = atomics.shared{ update = update, dtype = dtype, rows = o.rows, columns = o.columns,
            transposed = o.transposed }
          local a = atomics.numbers({ 3 * o.rows, o.columns }, dtype, 1)
          local before = atomics.numbers({ o.rows, o.columns }, dtype, 2)
          local want = atomics.expected(update, dtype, before:totable(), parts_of(a, o.rows))
          in_all_modes(kernel, function()
            if not o.transposed then return a, before:copy() end
            return a, tc.from_table(transposed(before:totable()), dtype)
          end, function(_, out)
            assert.are.same(want, o.transposed and transposed(out:totable()) or out:totable())
          end)
        end)
      end

      local in_smem = update == "atomic_add" or dtype == tc.int32 or dtype == tc.uint32
      if in_smem then
        it(("of SMEM by two roles: %s of %s"):format(update, dtype), function()
          for _, swizzle in ipairs{ "none", 64 } do
            local o = { update = update, dtype = dtype, rows = 16, columns = 64, swizzle = swizzle }
            local a, before = atomics.numbers({ 64, 64 }, dtype, 3), atomics.numbers({ 16, 64 }, dtype, 4)
            local want = atomics.expected(update, dtype, before:totable(), parts_of(a, 16))
            in_all_modes(atomics.in_smem(o), function() return a, before:copy() end,
              function(_, out) assert.are.same(want, out:totable()) end)
          end
        end)
      end
    end
  end

  for _, out in ipairs{ tc.float32, tc.float16 } do
    for _, m in ipairs{ 64, 128 } do
      it(("adds the parts of a matmul cut along K: M = %d, %s"):format(m, out), function()
        local o = { m = m, n = 64, k = 192, parts = 3, out = out }
        local a, b = compiler.integers({ m, 192 }, tc.float16, 1), compiler.integers({ 192, 64 }, tc.float16, 2)
        local want = tc.reference.matmul(a, b)
        in_all_modes(atomics.split_k(o), function() return a, b, tc.zeros({ m, 64 }, out) end,
          function(_, _, c) assert.are.equal(0, (tc.max_error(c:astype(tc.float32), want))) end)
      end)
    end
  end

  for _, o in ipairs{ { m = 64, dtype = tc.float32, update = "atomic_add" },
                      { m = 128, dtype = tc.float16, update = "atomic_max" },
                      { m = 128, dtype = tc.float32, update = "atomic_add", transposed = true },
                      { m = 128, dtype = tc.bfloat16, update = "atomic_max", transposed = true },
                      { m = 64, dtype = tc.float16, update = "atomic_min", transposed = true },
                      { m = 128, dtype = tc.float16, update = "atomic_add", smem = true },
                      { m = 64, dtype = tc.bfloat16, update = "atomic_add", smem = true, transposed = true } } do
    it(("takes an accumulator of %d rows: %s of %s%s%s"):format(o.m, o.update, o.dtype,
      o.transposed and ", transposed" or "", o.smem and ", in SMEM" or ""), function()
      local a = tc.randint({ o.m, 64 }, tc.float16, { low = -2, high = 3, seed = 1 })
      local b = tc.randint({ 64, 48 }, tc.float16, { low = -2, high = 3, seed = 2 })
      local want = tc.reference.matmul(a, b):totable()
      for _, row in ipairs(want) do
        for j, x in ipairs(row) do row[j] = atomics.combine[o.update](0, x, true) end
      end
      if o.transposed then want = transposed(want) end
      in_all_modes(atomics.of_accumulator(o), function()
        return a, b, tc.zeros(o.transposed and { 48, o.m } or { o.m, 48 }, o.dtype)
      end, function(_, _, out) assert.are.same(want, out:totable()) end)
    end)
  end

  it("of single elements counts", function()
    local values, want = tc.randint({ 64 }, tc.int32, { low = 0, high = 5, seed = 7 }), { 0, 0, 0, 0, 0 }
    for _, v in ipairs(values:totable()) do want[v + 1] = want[v + 1] + 1 end
    in_all_modes(atomics.histogram(64, 5), function()
      return values, tc.zeros({ 5 }, tc.int32), tc.zeros({ 1 }, tc.float32)
    end, function(_, out, total)
        assert.are.same(want, out:totable())
        assert.are.equal(32.0, total:get(0))
      end)
  end)

  for _, warpgroups in ipairs{ 0, 1, 2 } do
    it(("gives out tickets, each once, to a role of %d warpgroups"):format(warpgroups), function()
      local kernel = atomics.queue{ count = 23, ctas = 3, warpgroups = warpgroups > 0 and warpgroups or nil }
      in_all_modes(kernel, function()
        return tc.zeros({ 1 }, tc.int32), tc.zeros({ 23 }, tc.int32), tc.zeros({ 23 }, tc.int32)
      end, function(next_ticket, done, by)
        assert.are.equal(23 + 3, next_ticket:get(0))
        for i = 0, 22 do
          assert.are.equal(1, done:get(i))
          assert.is_true(by:get(i) >= 1 and by:get(i) <= 3)
        end
      end)
    end)
  end

  -- The value before, of each type and in both memories; outside of the array it is zero.
  for _, case in ipairs{ { tc.float32, "atomic_add", 2.5, 1.25 }, { tc.float16, "atomic_add", 2.5, 1.25 },
                         { tc.bfloat16, "atomic_add", 2.5, 1.25 }, { tc.int32, "atomic_max", -7, 5 },
                         { tc.int32, "atomic_xor", 12, 10 }, { tc.uint32, "atomic_min", 9, 4 } } do
    local dtype, update, before, value = table.unpack(case)
    it(("tells what one %s was: %s"):format(dtype, update), function()
      local kernel = tc.kernel{
        name = "before",
        args = { tc.gmem({ 4 }, dtype), tc.gmem({ 2 }, tc.int32), tc.gmem({ 3 }, dtype), tc.gmem({ 2 }, dtype) },
        grid = { 2 }, grid_names = { "x" },
        body = function(memory, places, told, held)
          local x = tc.axis_index "x"
          local mine = tc.smem({ 8 }, dtype, { swizzle = "none" })
          local role = tc.role{ name = "all", warpgroups = 1 }
          role(function()
            mine[3]:store(before)
            local old = tc[update](memory[places[x]:load()], value, { old = true })
            told[x]:store(old)
            local here = tc[update](mine[3], value, { old = true })
            tc.when(x:eq(0), function()
              told[2]:store(here)
              held[0]:store(mine[3]:load())
              held[1]:store(memory[1]:load())
            end)
          end)
        end,
      }
      in_all_modes(kernel, function()
        return tc.full({ 4 }, before, dtype), tc.from_table({ 1, 5 }, tc.int32), tc.zeros({ 3 }, dtype),
          tc.zeros({ 2 }, dtype)
      end, function(memory, _, told, held)
        local after = atomics.combine[update](before, value, dtype ~= tc.uint32)
        assert.are.same({ before, after, before, before }, memory:totable())
        assert.are.same({ before, 0, before }, told:totable())
        assert.are.same({ after, after }, held:totable())
      end)
    end)
  end

  it("of vectors and single values is made once, whatever the number of threads", function()
    local kernel = tc.kernel{
      name = "vectors",
      args = { tc.gmem({ 128, 48 }, tc.float32), tc.gmem({ 48 }, tc.float32), tc.gmem({ 128 }, tc.float32),
        tc.gmem({ 4, 8 }, tc.int32) },
      body = function(x, columns, rows, counts)
        local role = tc.role{ name = "all", warpgroups = 2 }
        role(function()
          local tile = x:load()
          tc.atomic_add(columns, tile:reduce("sum", 0))
          tc.atomic_add(rows, tile:reduce("sum", 1))
          tc.atomic_add(counts, 3)
          tc.atomic_max(counts[1], 7)
        end)
      end,
    }
    local x = compiler.integers({ 128, 48 }, tc.float32, 5)
    local table_of = x:totable()
    in_all_modes(kernel, function()
      return x, tc.ones({ 48 }, tc.float32), tc.zeros({ 128 }, tc.float32), tc.zeros({ 4, 8 }, tc.int32)
    end, function(_, columns, rows, counts)
      for j = 1, 48 do
        local sum = 1
        for i = 1, 128 do sum = sum + table_of[i][j] end
        assert.are.equal(sum, columns:get(j - 1))
      end
      for i = 1, 128 do
        local sum = 0
        for j = 1, 48 do sum = sum + table_of[i][j] end
        assert.are.equal(sum, rows:get(i - 1))
      end
      assert.are.same({ 3, 7 }, { counts:get(0, 5), counts:get(1, 5) })
    end)
  end)

  it("leaves out what lies outside of a GMEM array", function()
    local kernel = tc.kernel{
      name = "clipped", args = { tc.gmem({ "M", "N" }, tc.float32) }, grid = { 2, 2 }, grid_names = { "m", "n" },
      body = function(out)
        tc.atomic_add(out:tile({ tc.axis_index "m", tc.axis_index "n" }, { 32, 32 }), 2)
        tc.atomic_add(out[tc.axis_index "m" * 32 + 31][0], 1)
      end,
    }
    in_all_modes(kernel, function() return tc.zeros({ 40, 37 }, tc.float32) end, function(out)
      for i, row in ipairs(out:totable()) do
        for j, x in ipairs(row) do assert.are.equal(i == 32 and j == 1 and 4.0 or 2.0, x) end
      end
    end)
  end)

  it("of another CTA's SMEM adds there", function()
    local kernel = tc.kernel{
      name = "peers", args = { tc.gmem({ 2, 64 }, tc.float32) }, cluster = { 2 }, cluster_names = { "cta" },
      body = function(out)
        local cta = tc.axis_index "cta"
        local sums = tc.smem({ 64 }, tc.float32, { swizzle = "none" })
        local met = tc.cluster_barrier{ num_barriers = 2, collective_axes = "cta" }
        local role = tc.role{ name = "all", warpgroups = 1 }
        role(function()
          sums:store(tc.full({ 64 }, 0, tc.float32))
          tc.barrier_arrive(met[0])
          tc.barrier_wait(met[0])
          for rank = 0, 1 do tc.atomic_add(tc.cluster_ref(sums, rank), (cta + 1):astype(tc.float32)) end
          tc.barrier_arrive(met[1])
          tc.barrier_wait(met[1])
          out[cta]:store(sums:load())
        end)
      end,
    }
    in_all_modes(kernel, function() return tc.zeros({ 2, 64 }, tc.float32) end, function(out)
      assert.are.equal(0, (tc.max_error(out, tc.full({ 2, 64 }, 3, tc.float32))))
    end)
  end)

  it("comes after the role's stores, and before its loads", function()
    local kernel = tc.kernel{
      name = "order", args = { tc.gmem({ 32, 64 }, tc.int32), tc.gmem({ 64, 32 }, tc.int32) },
      body = function(x, out)
        local tile = tc.smem({ 32, 64 }, tc.int32)
        tile:store(x:load())
        tc.atomic_add(tile:T(), tc.iota({ 64, 32 }, 0, tc.int32))
        tc.atomic_xor(tile, 1)
        out:store(tile:T():load())
      end,
    }
    local x = compiler.integers({ 32, 64 }, tc.int32, 6)
    in_all_modes(kernel, function() return x, tc.zeros({ 64, 32 }, tc.int32) end, function(_, out)
      for j = 0, 63 do
        for i = 0, 31 do assert.are.equal((x:get(i, j) + j) ~ 1, out:get(j, i)) end
      end
    end)
  end)

  it("is a vector where the ISA has one", function()
    for _, case in ipairs{ { tc.float32, "atomic_add", "add.v4.f32" },
                           { tc.float16, "atomic_add", "add.noftz.v4.f16x2" },
                           { tc.bfloat16, "atomic_max", "max.noftz.v4.bf16x2" } } do
      for _, target in ipairs(modes.targets) do
        local kernel = atomics.shared{ update = case[2], dtype = case[1], rows = 64, columns = 64 }
        local threads = 64 * 64 // 128 // (case[1].bits == 16 and 8 or 4)
        assert.are.same({ ["relaxed.gpu.global." .. case[3]] = threads }, instructions(kernel, target))
      end
    end
    assert.are.same({ ["relaxed.gpu.global.min.noftz.v2.f16"] = 1 },
      instructions(atomics.shared{ update = "atomic_min", dtype = tc.float16, rows = 8, columns = 6 }, "sm_90a"))
  end)

  it("is shown by k:ops(), in the profile's and the estimate's terms", function()
    local kernel = atomics.shared{ update = "atomic_max", dtype = tc.int32, rows = 64, columns = 64 }
    assert.is_truthy(kernel:ops():find("atomic_max arg1, %%%d+  %-%-"))
    assert.is_truthy(kernel:ptx{ target = "sm_90a" }:find "atomic_max")
    assert.is_true(kernel:info{ target = "sm_100a" }.estimate.microseconds > 0)
  end)

  it("against a store of another CTA is a race, against an update none", function()
    local function hazards(store)
      local kernel = tc.kernel{
        name = "race", args = { tc.gmem({ 16, 64 }, tc.float32) }, grid = { 2 }, grid_names = { "x" },
        body = function(out)
          local value = tc.full({ 16, 64 }, 1, tc.float32)
          tc.when(tc.axis_index "x":eq(0), function() tc.atomic_add(out, value) end, function()
            if store then out:store(value + 1) else tc.atomic_add(out, value) end
          end)
        end,
      }
      return #kernel:emulate({ target = "sm_100a", mode = "check" }, tc.zeros({ 16, 64 }, tc.float32)).hazards
    end
    assert.is_true(hazards(true) > 0)
    assert.are.equal(0, hazards(false))
  end)

  it("that another CTA reads too early is named, with what orders the two", function()
    local function report(ordered)
      local kernel = tc.kernel{
        name = "early",
        args = { tc.gmem({ 16, 64 }, tc.int32), tc.gmem({ 1 }, tc.int32), tc.gmem({ 16, 64 }, tc.int32) },
        grid = { 2 }, grid_names = { "x" },
        body = function(sums, sem, out)
          tc.when(tc.axis_index "x":eq(0), function()
            tc.atomic_add(sums, 3)
            tc.semaphore_signal(sem[0])
          end, function()
            if ordered then tc.semaphore_wait(sem[0]) end
            out:store(sums:load())
          end)
        end,
      }
      local out = tc.zeros({ 16, 64 }, tc.int32)
      return kernel:emulate({ target = "sm_100a", mode = "check" }, tc.zeros({ 16, 64 }, tc.int32),
        tc.zeros({ 1 }, tc.int32), out), out
    end
    local early = report(false)
    assert.are.equal("weak-read-of-atomic", early.hazards[1].rule)
    assert.is_truthy(early.hazards[1].message:find("tc.semaphore_wait", 1, true))
    local clean, out = report(true)
    assert.are.equal(0, #clean.hazards)
    assert.are.equal(3, out:get(15, 63))
  end)

  it("before a copy of its SMEM wants tc.commit_smem", function()
    local function report(commits)
      local kernel = tc.kernel{
        name = "commit", args = { tc.gmem({ 16, 64 }, tc.float32) },
        body = function(out)
          local tile = tc.smem({ 16, 64 }, tc.float32)
          tile:store(tc.full({ 16, 64 }, 1, tc.float32))
          tc.atomic_add(tile, 2)
          if commits then tc.commit_smem() end
          tc.copy_smem_to_gmem(tile, out)
          tc.wait_smem_to_gmem(0)
        end,
      }
      return kernel:emulate({ target = "sm_90a", mode = "check" }, tc.zeros({ 16, 64 }, tc.float32)).hazards
    end
    local hazard = report(false)[1]
    assert.are.equal("proxy-fence", hazard.rule)
    assert.is_truthy(hazard.message:find "tc%.commit_smem%(%) between tc%.atomic_add %(line %d+%) and tc%.copy_smem")
    assert.are.equal(0, #report(true))
  end)

  it("beyond its array is refused by the emulator", function()
    local kernel = tc.kernel{
      name = "beyond", args = { tc.gmem({ 3, 16, 64 }, tc.float32) }, grid = { 3 }, grid_names = { "x" },
      body = function(out)
        local ring = tc.smem({ 2, 16, 64 }, tc.float32, { name = "ring" })
        for slot = 0, 1 do ring[slot]:store(tc.full({ 16, 64 }, 0, tc.float32)) end
        tc.atomic_add(ring[tc.axis_index "x"], 1)
        out[tc.axis_index "x"]:store(ring[0]:load())
      end,
    }
    local report = kernel:emulate({ target = "sm_100a" }, tc.zeros({ 3, 16, 64 }, tc.float32))
    assert.is_truthy(report.hazards[1].message:find('dimension 0 of "ring"', 1, true))
  end)

  it("of SMEM without an order between two roles' store and update is a race", function()
    local kernel = tc.kernel{
      name = "race", args = { tc.gmem({ 16, 64 }, tc.float32) },
      body = function(out)
        local tile = tc.smem({ 16, 64 }, tc.float32)
        local one, two = tc.role{ name = "one", warpgroups = 1 }, tc.role{ name = "two", warpgroups = 1 }
        one(function() tile:store(tc.full({ 16, 64 }, 0, tc.float32)) end)
        two(function() tc.atomic_add(tile, 1) end)
        one(function() out:store(tile:load()) end)
      end,
    }
    local report = kernel:emulate({ target = "sm_100a", mode = "check" }, tc.zeros({ 16, 64 }, tc.float32))
    assert.is_true(#report.hazards > 0)
  end)
end)

describe("tc.atomic_*", function()
  local setup = { args = { tc.gmem({ 64, 64 }, tc.float32), tc.gmem({ 64, 64 }, tc.float16),
    tc.gmem({ 64, 64 }, tc.int8), tc.gmem({ 64, 63 }, tc.float16), tc.gmem({ 64, 64 }, tc.int32) } }

  helper.refuses("takes a value of the ref's shape",
    "Invalid shape for `atomic_add`. Ref shape: (64, 64). Value shape: (32, 64).", function(x)
      local part = x:at(tc.ds(0, 32)):load()
      return function() tc.atomic_add(x, part) end, function() tc.atomic_add(x:at(tc.ds(0, 32)), part) end
    end, setup)
  helper.refuses("takes no fragment for one element",
    "Invalid shape for `atomic_add`. Ref shape: (). Value shape: (64, 64).", function(x)
      local all = x:load()
      return function() tc.atomic_add(x[0][0], all) end, function() tc.atomic_add(x[0][0], 1) end
    end, setup)
  helper.refuses("takes a value of the ref's dtype",
    "Invalid dtype for `atomic_add`. Ref dtype: float16. Value dtype: float32.", function(x, y)
      local all = x:load()
      return function() tc.atomic_add(y, all) end, function() tc.atomic_add(y, all:astype(tc.float16)) end
    end, setup)
  helper.refuses("adds f32 only", "f32 only supports add atomics, got atomic_max", function(x)
    return function() tc.atomic_max(x, 1) end, function() tc.atomic_add(x, 1) end
  end, setup)
  helper.refuses("has no bits of f16", "f16/bf16 only supports add, min, max atomics, got atomic_or", function(_, y)
    return function() tc.atomic_or(y, 1) end, function() tc.atomic_min(y, 1) end
  end, setup)
  helper.refuses("adds f16 in SMEM only", "f16/bf16 SMEM/multimem atomics only support add, got atomic_min", function()
    local tile = tc.smem({ 64, 64 }, tc.float16)
    return function() tc.atomic_min(tile, 1) end, function() tc.atomic_add(tile, 1) end
  end, setup)
  helper.refuses("takes extremes of f16 by pairs", "f16/bf16 atomic stores require even vector length, got 1",
    function(_, _, _, odd)
      return function() tc.atomic_max(odd, 1) end, function() tc.atomic_add(odd, 1) end
    end, setup)
  helper.refuses("takes no extreme of one f16", "f16/bf16 atomic stores require even vector length, got 1",
    function(_, y)
      return function() tc.atomic_max(y[3][4], 1) end, function() tc.atomic_add(y[3][4], 1) end
    end, setup)
  helper.refuses("takes 32-bit integers", "Unsupported element type for atomic stores: int8", function(_, _, z)
    return function() tc.atomic_add(z, 1) end
  end, setup)
  local made = debug.getinfo(1, "l").currentline + 4
  helper.refuses("takes no tensor memory",
    ("tc.atomic_add takes a ref to GMEM or SMEM, got TMEM ref, float32 (128, 64), allocated at line %d."):format(made),
    function()
      local acc = tc.tmem({ 128, 64 }, tc.float32)
      return function() tc.atomic_add(acc, 1) end
    end, setup)
  helper.refuses("of tiles needs a role of whole warpgroups",
    ("'atomic_add' needs a role of whole warpgroups; role 'one' (line %d) has 1 warp."):format(made + 5), function(x)
      local role = tc.role{ name = "one", warps = 1 }
      return function() role(function() tc.atomic_add(x, 1) end) end,
        function() role(function() tc.atomic_add(x[0][0], 1) end) end
    end, setup)
  helper.refuses("tells no tile what it was",
    "The option 'old' is for one element, but the ref has shape (64, 64).", function(x)
      return function() tc.atomic_add(x, 1, { old = true }) end,
        function() assert.is_truthy(tostring(tc.atomic_add(x[1][2], 1, { old = true })):find "recorded f32") end
    end, setup)
  helper.refuses("of one element takes no fraction for an integer", "0.5 stored into int32: an integer is needed",
    function(_, _, _, _, n)
      return function() tc.atomic_add(n[0][0], 0.5) end, function() tc.atomic_add(n[0][0], 2.0) end
    end, setup)
end)
