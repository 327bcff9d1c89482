-- Semaphores between CTAs, and launches that depend on each other.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"
local helper = require "helper"

local function in_all_modes(kernel, check, make) modes.run(kernel, make, check) end

local CTAS = 5

-- Each CTA adds its tile to the sum after the one before it has: o.by "load" or "copy"; o.without leaves a wait out.
local function serial(o)
  o = o or {}
  return tc.kernel{
    name = "serial",
    args = { tc.gmem({ CTAS, 64, 32 }, tc.float32), tc.gmem({ 64, 32 }, tc.float32), tc.gmem({ 1 }, tc.int32) },
    grid = { CTAS }, grid_names = { "x" },
    body = function(a, out, sem)
      local x = tc.axis_index "x"
      local mine = o.backwards and CTAS - 1 - x or x
      local tile = tc.smem({ 64, 32 }, tc.float32)
      local part = a[x]:load()
      if not o.without then
        tc.when(mine:gt(0), function()
          tc.semaphore_wait(sem[0], mine, { decrement = false, memory_scope = o.scope })
        end)
      end
      local sum = out:load() + part
      if o.by == "copy" then
        tile:store(sum)
        tc.commit_smem()
        tc.copy_smem_to_gmem(tile, out)
        tc.wait_smem_to_gmem(0)
      else
        out:store(sum)
      end
      tc.semaphore_signal(sem[0], 1, { memory_scope = o.scope })
    end,
  }
end

describe("a semaphore", function()
  for _, by in ipairs{ "load", "copy" } do
    for _, scope in ipairs{ "gpu", "sys" } do
      for _, backwards in ipairs{ false, true } do
        it(("puts CTAs in order: by %s, scope %s%s"):format(by, scope, backwards and ", last first" or ""), function()
          local a = kernels.integers({ CTAS, 64, 32 }, tc.float32, 1)
          local x = a:totable()
          in_all_modes(serial{ by = by, scope = scope, backwards = backwards }, function(_, out, sem)
            local y = out:totable()
            for i = 1, 64 do
              for j = 1, 32 do
                local sum = 0
                for c = 1, CTAS do sum = sum + x[c][i][j] end
                assert.are.equal(sum, y[i][j])
              end
            end
            assert.are.equal(CTAS, sem:totable()[1])
          end, function() return a, tc.zeros({ 64, 32 }, tc.float32), tc.zeros({ 1 }, tc.int32) end)
        end)
      end
    end
  end

  it("missing between two CTAs is a race", function()
    local report = serial{ without = true }:emulate({ target = "sm_100a", mode = "check" },
      tc.ones({ CTAS, 64, 32 }, tc.float32), tc.zeros({ 64, 32 }, tc.float32), tc.zeros({ 1 }, tc.int32))
    assert.is_true(#report.hazards > 0)
  end)

  it("is taken by one at a time", function()
    local kernel = tc.kernel{
      name = "lock", args = { tc.gmem({ 1 }, tc.int32), tc.gmem({ 2 }, tc.int32) }, grid = { 7 },
      body = function(lock, count)
        local role = tc.role{ name = "only", warps = 1 }
        role(function()
          tc.semaphore_wait(lock[0])
          count[0]:store(count[0]:load() + 1)
          tc.semaphore_signal(lock[0])
        end)
      end,
    }
    in_all_modes(kernel, function(lock, count)
      assert.are.same({ 1 }, lock:totable())
      assert.are.same({ 7, 0 }, count:totable())
    end, function() return tc.ones({ 1 }, tc.int32), tc.zeros({ 2 }, tc.int32) end)
  end)

  it("hands a tile to a role of another CTA that copies it by TMA", function()
    local kernel = tc.kernel{
      name = "hand",
      args = { tc.gmem({ 64, 32 }, tc.float32), tc.gmem({ 64, 32 }, tc.float32), tc.gmem({ 1 }, tc.int32) },
      grid = { 2 }, grid_names = { "x" },
      body = function(between, out, sem)
        local x = tc.axis_index "x"
        local tile, loaded = tc.smem({ 64, 32 }, tc.float32), tc.barrier{}
        tc.when(x:eq(0), function()
          between:store(tc.full({ 64, 32 }, 3, tc.float32))
          tc.commit_gmem()
          tc.semaphore_signal(sem[0], 2)
        end, function()
          tc.semaphore_wait(sem[0], 2)
          tc.commit_gmem()
          tc.copy_gmem_to_smem(between, tile, loaded)
          tc.barrier_wait(loaded)
          out:store(tile:load())
        end)
      end,
    }
    in_all_modes(kernel, function(_, out, sem)
      assert.are.equal(0, (tc.max_error(out, tc.full({ 64, 32 }, 3, tc.float32))))
      assert.are.same({ 0 }, sem:totable())
    end, function()
      return tc.zeros({ 64, 32 }, tc.float32), tc.zeros({ 64, 32 }, tc.float32), tc.zeros({ 1 }, tc.int32)
    end)
  end)

  -- CTA 0 makes a tile and tells all others, each by a flag of its own, and a counter; o.forgets: the flag of the last.
  local function telling(o)
    o = o or {}
    return tc.kernel{
      name = "telling",
      args = { tc.gmem({ 64, 32 }, tc.float32), tc.gmem({ CTAS, 64, 32 }, tc.float32), tc.gmem({ CTAS }, tc.int32),
        tc.gmem({ 2, 2 }, tc.int32) },
      grid = { CTAS }, grid_names = { "x" },
      body = function(tile, out, flags, counters)
        local x = tc.axis_index "x"
        tc.when(x:eq(0), function()
          tile:store(tc.iota({ 64, 32 }, 0, tc.float32))
          tc.semaphore_signal_parallel({ flags:at(tc.ds(0, o.forgets and CTAS - 1 or CTAS)), { counters[1][0], 3 },
            { counters[0][1] } }, { memory_scope = o.scope })
        end)
        if not o.without then tc.semaphore_wait(flags[x], 1, { memory_scope = o.scope }) end
        out[x]:store(tile:load())
      end,
    }
  end

  local function told()
    return tc.zeros({ 64, 32 }, tc.float32), tc.zeros({ CTAS, 64, 32 }, tc.float32), tc.zeros({ CTAS }, tc.int32),
      tc.zeros({ 2, 2 }, tc.int32)
  end

  for _, scope in ipairs{ "gpu", "sys" } do
    it("is signalled beside others, with one fence: " .. scope, function()
      local kernel = telling{ scope = scope }
      in_all_modes(kernel, function(_, out, flags, counters)
        for c = 0, CTAS - 1 do
          for i = 0, 63, 7 do assert.are.equal(i, out:get(c, i, 5)) end
        end
        assert.are.same({ 0, 0, 0, 0, 0 }, flags:totable())
        assert.are.same({ { 0, 1 }, { 3, 0 } }, counters:totable())
      end, told)
      local text = kernel:ptx{ target = "sm_90a" }
      local _, fences = text:gsub("fence%.acq_rel%." .. scope .. ";", "")
      local _, signals = text:gsub("red%.relaxed%." .. scope .. "%.global%.add%.u32", "")
      assert.are.same({ 1, CTAS + 2 }, { fences, signals })
      assert.is_truthy(kernel:ops():find("semaphore_signal_parallel arg2%[0%] %+= 1, .*arg3%[1, 0%] %+= 3, "
        .. "arg3%[0, 1%] %+= 1 memory_scope=" .. scope))
    end)
  end

  it("among several whose wait is missing is a race, whose signal is missing a deadlock", function()
    local report = telling{ without = true }:emulate({ target = "sm_100a", mode = "check" }, told())
    assert.is_true(#report.hazards > 0)
    report = telling{ forgets = true }:emulate({ target = "sm_100a" }, told())
    assert.are.equal("deadlock", report.hazards[1].rule)
  end)

  it("that nobody signals is a deadlock", function()
    local kernel = tc.kernel{
      name = "forever", args = { tc.gmem({ 1 }, tc.int32) },
      body = function(sem) tc.semaphore_wait(sem[0], 1) end,
    }
    local report = kernel:emulate({ target = "sm_100a" }, tc.zeros({ 1 }, tc.int32))
    assert.is_false(report.completed)
    assert.are.equal("deadlock", report.hazards[1].rule)
  end)

  local setup = { args = { tc.gmem({ 4 }, tc.int32), tc.gmem({ 4 }, tc.float32) } }
  helper.refuses("is no float", "Must signal int32 values, but got float32", function(ints, floats)
    return function() tc.semaphore_signal(floats[1]) end, function() tc.semaphore_signal(ints[1]) end
  end, setup)
  helper.refuses("is one element",
    "A semaphore is one element of an argument, got GMEM ref, int32 (4,), argument 1.", function(ints)
      return function() tc.semaphore_wait(ints) end, function() tc.semaphore_wait(ints[3]) end
    end, setup)
  helper.refuses("goes up", "tc.semaphore_signal takes an s32 that is at least 1, got 0.", function(ints)
    return function() tc.semaphore_signal(ints[0], 0) end, function() tc.semaphore_signal(ints[0], 1) end
  end, setup)
  helper.refuses("has a scope of the device or of all", "Unsupported memory_scope: cta", function(ints)
      return function() tc.semaphore_signal(ints[0], 1, { memory_scope = "cta" }) end,
        function() tc.semaphore_signal(ints[0], 1, { memory_scope = "gpu" }) end
    end, setup)
end)

describe("tc.semaphore_signal_parallel", function()
  local setup = { args = { tc.gmem({ 80 }, tc.int32), tc.gmem({ 4 }, tc.float32) } }
  local function refuses(title, expected, bad, good)
    helper.refuses(title, expected, function(ints, floats)
      return function() tc.semaphore_signal_parallel(bad(ints, floats)) end,
        good and function() tc.semaphore_signal_parallel(good(ints)) end
    end, setup)
  end

  refuses("signals no float", "Must signal int32 values, but got float32",
    function(ints, floats) return { ints[0], floats[1] } end, function(ints) return { ints[0], ints[1] } end)
  refuses("goes up", "tc.semaphore_signal_parallel takes an s32 that is at least 1, got 0.",
    function(ints) return { { ints[0], 0 } } end, function(ints) return { { ints[0], 2 } } end)
  refuses("takes at most 64", "tc.semaphore_signal_parallel signals at most 64 semaphores.",
    function(ints) return { ints } end, function(ints) return { ints:at(tc.ds(0, 64)) } end)
  refuses("takes refs",
    "bad argument #1 to 'semaphore_signal_parallel' (signal 2: ref or {ref, inc} expected, got integer 5)",
    function(ints) return { ints[0], 5 } end)
  local function argument(text) return "bad argument #1 to 'semaphore_signal_parallel' (" .. text .. ")" end
  refuses("adds integers", argument("signal 2: increment of the semaphore: integer or recorded s32 expected, "
    .. "got number 1.5"), function(ints) return { ints[0], { ints[1], 1.5 } } end)
  refuses("knows no other entries of a signal",
    argument('signal 1: ref or {ref, inc} expected, but there is an entry at string "inc"'),
    function(ints) return { { ints[0], inc = 2 } } end, function(ints) return { { ints[0], 2 } } end)
  refuses("takes one increment of a signal",
    argument("signal 1: ref or {ref, inc} expected, but there is an entry at integer 3"),
    function(ints) return { { ints[0], 1, 2 } } end)
  refuses("knows no options among the signals",
    argument('signals: list of refs or {ref, inc} expected, but there is an entry at string "memory_scope"'),
    function(ints) return { ints[0], memory_scope = "gpu" } end)
  refuses("takes a list", "bad argument #1 to 'semaphore_signal_parallel' (signals: 1 to 64 expected, got 0)",
    function() return {} end)
end)

describe("programmatic dependent launch", function()
  local function step(o)
    return tc.kernel{
      name = "step", args = { tc.gmem({ 128, 64 }, tc.float32), tc.gmem({ 128, 64 }, tc.float32) }, grid = { 2 },
      grid_names = { "x" },
      body = function(a, out)
        local load, store = tc.role{ name = "load", warps = 1 }, tc.role{ name = "store", warpgroups = 1 }
        local tile, loaded, x = tc.smem({ 64, 64 }, tc.float32), tc.barrier{}, tc.axis_index "x"
        if o.wait then tc.griddepcontrol_wait() end
        load(function() tc.copy_gmem_to_smem(a:tile({ x, 0 }, { 64, 64 }), tile, loaded) end)
        store(function()
          tc.barrier_wait(loaded)
          if o.signal then tc.griddepcontrol_launch_dependents() end
          out:tile({ x, 0 }, { 64, 64 }):store(tile:load() + 1)
        end)
      end,
    }
  end

  it("waits in every role", function()
    local kernel = step{ wait = true, signal = true }
    for _, target in ipairs(modes.targets) do
      local text = kernel:ptx{ target = target }
      local _, waits = text:gsub("griddepcontrol%.wait;", "")
      local _, signals = text:gsub("griddepcontrol%.launch_dependents;", "")
      assert.are.equal(2, waits)
      assert.are.equal(1, signals)
    end
    in_all_modes(kernel, function(_, out)
      assert.are.equal(0, (tc.max_error(out, tc.full({ 128, 64 }, 2, tc.float32))))
    end, function() return tc.ones({ 128, 64 }, tc.float32), tc.zeros({ 128, 64 }, tc.float32) end)
  end)

  it("is told to launchers of exported kernels", function()
    for _, wait in ipairs{ true, false } do
      local path = os.tmpname()
      local files = step{ wait = wait, signal = true }:export(path, { target = "sm_90a" })
      local file <close> = assert(io.open(path .. ".json"))
      assert.is_truthy(file:read "a":find(('"programmatic_stream_serialization": %s'):format(wait), 1, true))
      for _, name in ipairs(files) do os.remove(name) end
      os.remove(path)
    end
  end)
end)
