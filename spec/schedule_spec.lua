-- Which CTA does which tile: cluster launch control, tc.dynamic_scheduling_loop, tc.nd_loop, tc.planar_snake.
-- Every element of a grid must be done once; matmuls against the product in double precision.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"
local helper = require "helper"
local mutation = require "hazard_mutation"
local schedules = require "schedule_kernels"

local targets = modes.targets
local in_all_modes, assembles, no_hazards = modes.each, modes.assembles, modes.no_hazards

local function cdiv(a, b) return (a + b - 1) // b end

-- ---- the work of a grid ---------------------------------------------------------------------------------------

describe("tc.dynamic_scheduling_loop", function()
  for _, grid in ipairs{ { 7 }, { 5, 3 }, { 1, 1, 9 }, { 2, 3, 2, 3 } } do
    for _, cluster in ipairs{ false, 2, 4 } do
      for _, roles in ipairs{ false, true } do
        it(("does each element once: grid %s, cluster %s, %s"):format(table.concat(grid, "x"), cluster or 1,
          roles and "roles" or "one role"), function()
          local kernel, total = schedules.counting{ grid = grid, cluster = cluster or nil, roles = roles }
          for _, target in ipairs(targets) do
            in_all_modes(target, function(options)
              local out, seen = tc.zeros({ total }, tc.int32), tc.zeros({ total }, tc.int32)
              no_hazards(kernel:emulate(options, out, seen))
              local most = 0
              local turns = seen:totable()
              for i, n in ipairs(out:totable()) do
                assert.are.equal(1, n)
                assert.is_true(turns[i] >= 1)
                most = math.max(most, turns[i])
              end
              -- Launch control takes work over; without it each CTA does its own.
              if target == "sm_90a" then assert.are.equal(1, most) else assert.is_true(most > 1) end
            end)
            assembles(kernel, target)
          end
        end)
      end
    end
  end

  it("goes on in other CTAs where a request is refused", function()
    local begun = {}
    for seed = 1, 8 do
      local kernel, total = schedules.counting{ grid = { 40 }, cluster = 2, roles = true }
      local out, seen = tc.zeros({ total }, tc.int32), tc.zeros({ total }, tc.int32)
      no_hazards(kernel:emulate({ target = "sm_100a", mode = "random", seed = seed }, out, seen))
      local first = 0
      for i, turn in ipairs(seen:totable()) do
        assert.are.equal(1, out:get(i - 1))
        if turn == 1 then first = first + 1 end
      end
      begun[#begun + 1] = first // 2
    end
    assert.is_true(math.max(table.unpack(begun)) > 1)
  end)

  it("asks once for a cluster, and hands the answer to all its CTAs", function()
    local text = (schedules.counting{ grid = { 4 }, cluster = 2, roles = true }):ptx{ target = "sm_100a" }
    local _, asked = text:gsub("clusterlaunchcontrol%.try_cancel", "")
    assert.are.equal(1, asked)
    assert.is_truthy(text:find("@%p[^\n]*try_cancel[^\n]*multicast::cluster::all"))
  end)
end)

-- ---- a dynamic loop, spoilt ----------------------------------------------------------------------------------------

describe("a dynamic loop of two CTAs whose text has lost", function()
  local kernel, total = schedules.counting{ grid = { 12 }, cluster = 2, roles = true }
  local text = kernel:ptx{ target = "sm_100a" }
  local READER, SCHEDULER = "// role four: warps", "// role scheduler: warp"

  -- The rule of the first report.
  local function rule_of(spoilt)
    local out, seen = tc.zeros({ total }, tc.int32), tc.zeros({ total }, tc.int32)
    local report = tc.ptx(spoilt):kernel "counting":emulate{ grid = { 24 }, block = { 256 }, cluster = { 2 },
      smem = 64, mode = "check", target = "sm_100a", args = { out, seen } }
    return report.hazards[1] and report.hazards[1].rule or "none"
  end

  it("nothing is right", function() assert.are.equal("none", rule_of(text)) end)
  for lost, case in pairs{
    ["the wait for the answer"] = { mutation.drop_wait(text, "+32], ", { behind = READER }), "copy-not-awaited" },
    ["the wait for its readers"] = { mutation.drop_wait(text, "+48], ", { behind = SCHEDULER }), "shared-race" },
    ["the count of its bytes"] = { mutation.drop(text, "arrive.expect_tx", { behind = SCHEDULER }), "deadlock" },
    ["the multicast"] = { mutation.replace(text, "try_cancel", ".multicast::cluster::all", ""), "mbarrier-tx" },
    ["an arrival of a reader"] = { mutation.drop(text, "mbarrier.arrive.release.cluster", { behind = READER }),
      "deadlock" },
  } do
    it(lost, function() assert.are.equal(case[2], rule_of(case[1])) end)
  end
end)

-- ---- a persistent matmul ----------------------------------------------------------------------------------------

describe("a persistent matmul of three roles", function()
  for _, case in ipairs{
    { m = 256, n = 192, k = 128, walk = "dynamic" },
    { m = 300, n = 200, k = 200, walk = "dynamic", snake = 3, stages = 2 },
    { m = 256, n = 320, k = 192, walk = "nd", workers = 3 },
    { m = 640, n = 64, k = 64, walk = "nd", workers = 2, snake = 1 },
  } do
    it(("%s, %d x %d x %d"):format(case.walk, case.m, case.n, case.k), function()
      local kernel = schedules.persistent(case)
      local a = kernels.integers({ case.m, case.k }, tc.bfloat16, 1)
      local b = kernels.integers({ case.k, case.n }, tc.bfloat16, 2)
      local expected = tc.reference.matmul(a, b)
      for _, target in ipairs(targets) do
        in_all_modes(target, function(options)
          local out = tc.zeros({ case.m, case.n }, tc.float32)
          no_hazards(kernel:emulate(options, a, b, out))
          assert.are.equal(0, (tc.max_error(out, expected)))
        end)
        assembles(kernel, target)
      end
    end)
  end
end)

describe("a persistent matmul of pairs of CTAs", function()
  it("is right", function()
    local case = { m = 512, n = 384, k = 192 }
    local kernel = schedules.pairs(case)
    local a = kernels.integers({ case.m, case.k }, tc.float16, 1)
    local b = kernels.integers({ case.k, case.n }, tc.float16, 2)
    local expected = tc.reference.matmul(a, b)
    in_all_modes("sm_100a", function(options)
      local out = tc.zeros({ case.m, case.n }, tc.float32)
      no_hazards(kernel:emulate(options, a, b, out))
      assert.are.equal(0, (tc.max_error(out, expected)))
    end)
    assembles(kernel, "sm_100a")
  end)
end)

-- ---- the operations by themselves -------------------------------------------------------------------------------

-- One CTA of two warps each: the first asks, both read; `spoil` leaves a wait out.
local function bare(spoil)
  return tc.kernel{
    name = "bare", args = { tc.gmem({ 8 }, tc.int32) }, grid = { 8 }, grid_names = { "x" },
    body = function(out)
      local result = tc.cluster_cancel_result()
      local ready = tc.barrier{ name = "ready" }
      local read = tc.barrier{ name = "read", num_arrivals = 2 }
      local asks, works = tc.role{ name = "asks", warps = 1 }, tc.role{ name = "works", warps = 1 }
      local x = tc.var(tc.axis_index "x")
      local turn = tc.var(0)
      tc.loop(function()
        local here, t = x:get(), turn:get()
        asks(function()
          if spoil ~= "slot" then tc.when(t:gt(0), function() tc.barrier_wait(read) end) end
          tc.try_cluster_cancel(result, ready)
          tc.barrier_wait(ready)
        end)
        works(function()
          out[here]:store(here + 1)
          if spoil ~= "answer" then tc.barrier_wait(ready) end
        end)
        local index, success = tc.query_cluster_cancel(result)
        asks(function() tc.barrier_arrive(read) end)
        works(function() tc.barrier_arrive(read) end)
        tc.stop(success:lnot())
        x:set(index[1])
        turn:set(t + 1)
      end)
    end,
  }
end

describe("tc.try_cluster_cancel and tc.query_cluster_cancel", function()
  it("share the grid", function()
    in_all_modes("sm_100a", function(options)
      local out = tc.zeros({ 8 }, tc.int32)
      no_hazards(bare():emulate(options, out))
      assert.are.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, out:totable())
    end)
    assembles(bare(), "sm_100a")
  end)

  it("show an answer that is read before it is there", function()
    local ok, report = pcall(function()
      return bare("answer"):emulate({ target = "sm_100a", mode = "check" }, tc.zeros({ 8 }, tc.int32))
    end)
    assert.is_true(not ok or #report.hazards > 0)
    assert.is_truthy((ok and report.hazards[1].message or report):find("try_cancel", 1, true))
  end)

  it("show an answer that is overwritten while it may be read", function()
    local report = bare("slot"):emulate({ target = "sm_100a", mode = "check" }, tc.zeros({ 8 }, tc.int32))
    assert.is_true(#report.hazards > 0)
  end)

  local setup = { grid = { 4, 2 }, grid_names = { "x", "y" }, args = { tc.gmem({ 16 }, tc.uint8) } }

  helper.refuses("a response of another size", "Try cluster cancel response must be 128 bits, but is 256 bits.",
    function()
      local result, barrier = tc.cluster_cancel_result(2), tc.barrier{}
      return function() tc.try_cluster_cancel(result, barrier) end,
        function() tc.try_cluster_cancel(result[1], barrier) end
    end, setup)
  helper.refuses("an answer of another size", "Response to decode must be 128 bits, but is 256 bits.", function()
    local result = tc.cluster_cancel_result(2)
    return function() tc.query_cluster_cancel(result) end, function() tc.query_cluster_cancel(result[0]) end
  end, setup)
  helper.refuses("a response in another space", "Response memref must be in SMEM.", function(gmem)
    local result, barrier = tc.cluster_cancel_result(), tc.barrier{}
    return function() tc.try_cluster_cancel(gmem, barrier) end, function() tc.try_cluster_cancel(result, barrier) end
  end, setup)
  helper.refuses("a part of a longer row",
    "A response is one row of 16 bytes of a plain (swizzle = \"none\") SMEM ref.", function()
      local row, result = tc.smem({ 64 }, tc.uint8), tc.smem({ 4 }, tc.int32)
      return function() tc.query_cluster_cancel(row:at(tc.ds(16, 16))) end,
        function() tc.query_cluster_cancel(result) end
    end, setup)
  helper.refuses("a barrier of the cluster",
    "tc.try_cluster_cancel arrives on the barrier of each CTA by itself, not on a tc.cluster_barrier.", function()
      local result, barrier = tc.cluster_cancel_result(), tc.barrier{}
      local cluster = tc.cluster_barrier{ collective_axes = "c" }
      return function() tc.try_cluster_cancel(result, cluster) end,
        function() tc.try_cluster_cancel(result, barrier) end
    end, { cluster = { 2 }, cluster_names = { "c" } })
  -- A loop of one role: `of` makes the barrier that says that an answer was read.
  local function loop(of, condition)
    return function()
      local role = tc.role{ name = "only", warps = 1 }
      local result, ready = tc.cluster_cancel_result(), tc.barrier{ name = "ready" }
      local read = of()
      tc.loop(function()
        role(function()
          local function request() tc.try_cluster_cancel(result, ready) end
          if condition then tc.when(tc.axis_index "c":eq(0), request) else request() end
          tc.barrier_wait(ready)
        end)
        local _, success = tc.query_cluster_cancel(result)
        role(function()
          tc.barrier_arrive(read)
          tc.barrier_wait(read)
        end)
        tc.stop(success:lnot())
      end)
    end
  end
  local function own() return tc.barrier{ name = "read" } end
  local function all() return tc.cluster_barrier{ name = "read", collective_axes = "c" } end
  local pair = { grid = { 4 }, grid_names = { "x" }, cluster = { 2 }, cluster_names = { "c" } }
  helper.build_refuses("a slot that is released within one CTA", "This request writes an answer in every CTA along "
    .. "\"c\", but its role learns from its own CTA alone that the one before has been read.", pair, loop(own))
  helper.builds("a slot that is released within the cluster", pair, loop(all))
  helper.builds("a slot that is released in a cluster of one CTA", { grid = { 4 } }, loop(own))
  helper.build_refuses("a request of one CTA of several", "Every CTA along \"c\" has to make this request, but whether "
    .. "or how often it is made depends on the index along it.", pair, loop(all, true))
  helper.build_refuses("a request that nobody waits for",
    ("Nothing ever waits on barrier \"ready\" (line %d), which completes with the answer to this request.")
    :format(debug.getinfo(1, "l").currentline + 1), {}, function()
      tc.try_cluster_cancel(tc.cluster_cancel_result(), tc.barrier{ name = "ready" })
    end)
  helper.refuses("an unknown axis", "unknown grid axis 'z'; axes of the grid: x, y", function()
    local result = tc.cluster_cancel_result()
    return function() tc.query_cluster_cancel(result, { "z" }) end,
      function() tc.query_cluster_cancel(result, { "y", "x" }) end
  end, setup)
  helper.refuses("a cluster without names",
    "tc.dynamic_scheduling_loop in a cluster needs cluster_names: its CTAs tell each other when an answer has been "
    .. "read.",
    function() return function() tc.dynamic_scheduling_loop("x", function() end) end end,
    { grid = { 4 }, grid_names = { "x" }, cluster = { 2 } })
  helper.refuses("a grid without names",
    "tc.dynamic_scheduling_loop: grid_names must name every axis of the grid, number 1 is missing: work that is taken "
    .. "over differs along all of them.",
    function() return function() tc.dynamic_scheduling_loop("x", function() end) end end, { grid = { 1, 4 } })
  helper.refuses("cluster_axes that leave one out",
    "tc.dynamic_scheduling_loop: cluster_axes must name every axis of the cluster, 'd' is missing: "
    .. "all its CTAs take over work together.",
    function()
      return function() tc.dynamic_scheduling_loop("x", function() end, { cluster_axes = { "c" } }) end,
        function() tc.dynamic_scheduling_loop("x", function() end, { cluster_axes = { "c", "d" } }) end
    end, { grid = { 4 }, grid_names = { "x" }, cluster = { 2, 2 }, cluster_names = { "c", "d" } })
  helper.refuses("grid_names that leave an axis out",
    "tc.dynamic_scheduling_loop: grid_names must name every axis of the grid, 'y' is missing: work that is taken over "
    .. "differs along all of them.",
    function()
      return function() tc.dynamic_scheduling_loop("x", function() end) end,
        function() tc.dynamic_scheduling_loop({ "y", "x" }, function() end) end
    end, { grid = { 4, 2, 1 }, grid_names = { "x", "y", "z" } })
  helper.refuses("a second dynamic loop",
    "This kernel has a tc.dynamic_scheduling_loop already: when it ends, no work is left.",
    function()
      tc.dynamic_scheduling_loop("x", function() end)
      return function() tc.dynamic_scheduling_loop("x", function() end) end
    end, { grid = { 4 }, grid_names = { "x" } })
  helper.refuses("an axis named twice", "The axis 'x' is named twice.", function()
    return function() tc.nd_loop({ 8 }, function() end, { collective_axes = { "x", "x" } }) end,
      function() tc.nd_loop({ 8 }, function() end, { collective_axes = { "x" } }) end
  end, { grid = { 4 }, grid_names = { "x" } })

  for _, outer in ipairs{ function(fn) tc.range(2, fn) end, function(fn) tc.loop(fn) end } do
    helper.refuses("a dynamic loop in another one",
      "tc.dynamic_scheduling_loop in another loop: in its second turn no work is left.",
      function()
        return function() outer(function() tc.dynamic_scheduling_loop("x", function() end) end) end,
          function() tc.dynamic_scheduling_loop("x", function() tc.range(2, function() end) end) end
      end, { grid = { 4 }, grid_names = { "x" } })
  end

  it("show a request behind a refusal", function()
    local kernel = tc.kernel{
      name = "again", args = { tc.gmem({ 8 }, tc.int32) }, grid = { 1 }, grid_names = { "x" },
      body = function(out)
        local result, answered = tc.cluster_cancel_result(), tc.barrier{}
        tc.range(2, function()
          tc.try_cluster_cancel(result, answered)
          tc.barrier_wait(answered)
          local index = tc.query_cluster_cancel(result, { "x" })
          out[0]:store(index[1])
        end)
      end,
    }
    local report = kernel:emulate({ target = "sm_100a", mode = "check" }, tc.zeros({ 8 }, tc.int32))
    assert.are.equal("launch-control-ended", report.hazards[1] and report.hazards[1].rule)
  end)
end)

-- ---- orders -----------------------------------------------------------------------------------------------------

describe("tc.planar_snake", function()
  it("walks 8 x 8 in strips of 2", function()
    local expected = {
      { 0, 2, 4, 6, 8, 10, 12, 14 }, { 1, 3, 5, 7, 9, 11, 13, 15 },
      { 30, 28, 26, 24, 22, 20, 18, 16 }, { 31, 29, 27, 25, 23, 21, 19, 17 },
      { 32, 34, 36, 38, 40, 42, 44, 46 }, { 33, 35, 37, 39, 41, 43, 45, 47 },
      { 62, 60, 58, 56, 54, 52, 50, 48 }, { 63, 61, 59, 57, 55, 53, 51, 49 },
    }
    for i = 0, 63 do
      local row, column = tc.planar_snake(i, { 8, 8 }, 0, 2)
      assert.are.equal(i, expected[row + 1][column + 1])
      column, row = tc.planar_snake(i, { 8, 8 }, 1, 2)
      assert.are.equal(i, expected[row + 1][column + 1])
    end
  end)

  it("narrows the last strip", function()
    local order = {}
    for i = 0, 14 do
      local row, column = tc.planar_snake(i, { 3, 5 }, 1, 2)
      order[#order + 1] = row * 10 + column
    end
    assert.are.same({ 0, 1, 10, 11, 20, 21, 22, 23, 12, 13, 2, 3, 4, 14, 24 }, order)
  end)

  helper.refuses("takes an element of the plane",
    "tc.planar_snake: element 12 is outside of the plane (3, 4).", function()
      return function() tc.planar_snake(12, { 3, 4 }, 0, 2) end, function() tc.planar_snake(11, { 3, 4 }, 0, 2) end
    end)
  helper.refuses("counts from 0",
    "tc.planar_snake: element -1 is outside of the plane (3, recorded s32: grid0).",
    function()
      local n = tc.axis_index(0)
      return function() tc.planar_snake(-1, { 3, n }, 0, 2) end, function() tc.planar_snake(0, { 3, n }, 0, 2) end
    end, { grid = { 4 } })
  for _, case in ipairs{ { "float", function(x) return x[0]:load() end, "recorded f32: %0" },
                         { "condition", function() return tc.axis_index(0):lt(2) end,
                           "recorded predicate: grid0 < 2" } } do
    helper.refuses("takes no " .. case[1],
      ("bad argument #1 to 'planar_snake' (lin_idx: integer or recorded s32 expected, got tcmma.scalar (%s))"):format(
        case[3]),
      function(x)
        local index = case[2](x)
        return function() tc.planar_snake(index, { 3, 4 }, 0, 2) end,
          function() tc.planar_snake(tc.axis_index(0), { 3, 4 }, 0, 2) end
      end, { args = { tc.gmem({ 4 }, tc.float32) }, grid = { 4 } })
  end

  it("gives recorded indices the same places, each once", function()
    for _, m in ipairs{ 4, 16 } do
      for _, n in ipairs{ 4, 10 } do
        for minor = 0, 1 do
          for _, width in ipairs{ 1, 2, 3, 4 } do
            local kernel = tc.kernel{
              name = "snake", args = { tc.gmem({ "M", "N" }, tc.int32), tc.gmem({ m, n }, tc.int32) },
              body = function(sized, fixed)
                tc.range(m * n, function(i)
                  local row, column = tc.planar_snake(i, { m, n }, minor, width)
                  fixed[row][column]:store(i + 1)
                  row, column = tc.planar_snake(i, { sized.shape[1], sized.shape[2] }, minor, width)
                  sized[row][column]:store(i + 1)
                end)
              end,
            }
            local a, b = tc.zeros({ m, n }, tc.int32), tc.zeros({ m, n }, tc.int32)
            kernel:emulate({ target = "sm_90a" }, a, b)
            a, b = a:totable(), b:totable()
            for i = 0, m * n - 1 do
              local row, column = tc.planar_snake(i, { m, n }, minor, width)
              assert.are.equal(i + 1, a[row + 1][column + 1])
              assert.are.equal(i + 1, b[row + 1][column + 1])
            end
          end
        end
      end
    end
  end)
end)

describe("tc.nd_loop", function()
  local function walk(grid, workers, tiling)
    local total = 1
    for _, size in ipairs(grid) do total = total * size end
    local kernel = tc.kernel{
      name = "walk", args = { tc.gmem({ total, 4 }, tc.int32) }, grid = { workers[1], workers[2] },
      grid_names = { "x", "y" },
      body = function(out)
        tc.nd_loop(grid, function(info)
          local at = 0
          for d, size in ipairs(grid) do at = at * size + info.index[d] end
          out[at][0]:store(out[at][0]:load() + 1)
          out[at][1]:store(info.local_index)
          out[at][2]:store(info.num_local_steps)
          out[at][3]:store(tc.axis_index "x" * workers[2] + tc.axis_index "y")
        end, { collective_axes = { "x", "y" }, tiling = tiling })
      end,
    }
    local out = tc.zeros({ total, 4 }, tc.int32)
    kernel:emulate({ target = "sm_100a" }, out)
    return out:totable(), total
  end

  for _, case in ipairs{ { { 7 }, { 1, 1 } }, { { 12 }, { 2, 2 } }, { { 5, 3 }, { 2, 2 } },
                         { { 2, 3, 4 }, { 5, 1 } } } do
    it(("gives element t to worker t mod W: %s over %d"):format(table.concat(case[1], "x"), case[2][1] * case[2][2]),
      function()
        local out, total = walk(case[1], case[2])
        local workers = case[2][1] * case[2][2]
        for t = 0, total - 1 do
          local worker = t % workers
          assert.are.same({ 1, t // workers, cdiv(total - worker, workers), worker }, out[t + 1])
        end
      end)
  end

  it("walks tile by tile", function()
    local out = walk({ 4, 6 }, { 1, 1 }, { 2, 3 })
    local order = {}
    for at, row in ipairs(out) do order[row[2] + 1] = at - 1 end
    assert.are.same({ 0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11, 12, 13, 14, 18, 19, 20, 15, 16, 17, 21, 22, 23 }, order)
  end)

  local setup = { grid = { 2 }, grid_names = { "x" } }
  local function body() end
  helper.refuses("a tiling of other rank", "tiling=(2,) and grid=(4, 6) must have same length.", function()
    return function() tc.nd_loop({ 4, 6 }, body, { collective_axes = "x", tiling = { 2 } }) end,
      function() tc.nd_loop({ 4, 6 }, body, { collective_axes = "x", tiling = { 2, 6 } }) end
  end, setup)
  helper.refuses("a tiling that does not divide", "Tiling (2, 4) does not divide grid (4, 6).", function()
    return function() tc.nd_loop({ 4, 6 }, body, { collective_axes = "x", tiling = { 2, 4 } }) end,
      function() tc.nd_loop({ 4, 8 }, body, { collective_axes = "x", tiling = { 2, 4 } }) end
  end, setup)
  helper.refuses("more points than can be counted",
    "bad argument #1 to 'nd_loop' (a grid (65536, 32768) has more than 2^31 - 1 points)", function()
    return function() tc.nd_loop({ 65536, 32768 }, body, { collective_axes = "x" }) end,
      function() tc.nd_loop({ 65535, 32768 }, body, { collective_axes = "x" }) end
  end, setup)
  helper.refuses("more points than 64 bits hold",
    ("bad argument #1 to 'nd_loop' (a grid (%d, 4) has more than 2^31 - 1 points)"):format(math.maxinteger), function()
    return function() tc.nd_loop({ math.maxinteger, 4 }, body, { collective_axes = "x" }) end,
      function() tc.nd_loop({ 1 << 28, 4 }, body, { collective_axes = "x" }) end
  end, setup)
end)
