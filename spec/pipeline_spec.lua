-- tc.emit_pipeline and tc.emit_pipeline_warp_specialized: results against those computed in Lua, or the product in
-- double precision, in the emulator's three modes without a hazard.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"
local helper = require "helper"
local pipelines = require "pipeline_kernels"

local function in_all_modes(kernel, check, make, only) modes.run(kernel, make, check, only) end

local function equal(expected)
  return function(...)
    local out = select(select("#", ...), ...)
    assert.are.equal(0, (tc.max_error(out, expected)))
  end
end

local function numbers(shape, seed) return kernels.integers(shape, tc.float32, seed) end

-- expected[i][j] = fn(i, j), 0-based.
local function table_of(rows, columns, fn)
  local list = {}
  for i = 0, rows - 1 do
    list[i + 1] = {}
    for j = 0, columns - 1 do list[i + 1][j + 1] = fn(i, j) end
  end
  return tc.from_table(list, tc.float32, { rows, columns })
end

local function check_scaled(o)
  local a, bias = numbers({ o.rows, o.columns }, 1), numbers({ 1, o.columns }, 2)
  local x, y = a:totable(), bias:totable()
  local expected = table_of(o.rows, o.columns, function(i, j) return 2 * x[i + 1][j + 1] + y[1][j + 1] end)
  in_all_modes(pipelines.scaled(o), equal(expected), function()
    return a, bias, tc.zeros({ o.rows, o.columns }, tc.float32)
  end)
end

for _, specialized in ipairs{ false, true } do
  describe(specialized and "tc.emit_pipeline_warp_specialized" or "tc.emit_pipeline", function()
    for _, steps in ipairs{ 1, 2, 3, 4, 9 } do
      it(("streams blocks, %d at once"):format(steps), function()
        check_scaled{ rows = 192, columns = 128, steps = steps, specialized = specialized }
      end)
    end
    it("keeps tiles longer", function()
      for delay = 1, 3 do
        check_scaled{ rows = 192, columns = 128, steps = 4, delay = delay, specialized = specialized }
      end
    end)
    it("runs several times", function()
      check_scaled{ rows = 192, columns = 128, steps = 3, runs = 3, specialized = specialized }
    end)
    it("loads a block that stays the same once", function()
      local o = { rows = 256, columns = 64, steps = 2, specialized = specialized }
      check_scaled(o)
      local report = pipelines.scaled(o):emulate({ target = "sm_100a" }, tc.ones({ 256, 64 }, tc.float32),
        tc.ones({ 1, 64 }, tc.float32), tc.zeros({ 256, 64 }, tc.float32))
      assert.are.equal(0, #report.hazards)
    end)
    it("makes one step of a grid of one block", function()
      check_scaled{ rows = 64, columns = 64, steps = 4, specialized = specialized }
    end)
  end)
end

describe("tc.emit_pipeline", function()
  it("takes inputs of different delay_release", function()
    check_scaled{ rows = 192, columns = 192, steps = 3, delay = 2, delay_bias = 0 }
  end)

  it("takes a recorded grid", function()
    local kernel = tc.kernel{
      name = "recorded", args = { tc.gmem({ "M", 64 }, tc.float32), tc.gmem({ "M", 64 }, tc.float32) },
      body = function(a, out)
        tc.emit_pipeline(function(_, x, y) y:store(x:load() + 1) end, {
          grid = { tc.cdiv(a.shape[1], 32) }, max_concurrent_steps = 3,
          in_specs = { tc.block_spec({ 32, 64 }, function(m) return m, 0 end) },
          out_specs = { tc.block_spec({ 32, 64 }, function(m) return m, 0 end) },
        })(a, out)
      end,
    }
    for _, rows in ipairs{ 32, 64, 70, 200 } do
      local a = numbers({ rows, 64 }, 3)
      local x = a:totable()
      in_all_modes(kernel, equal(table_of(rows, 64, function(i, j) return x[i + 1][j + 1] + 1 end)),
        function() return a, tc.zeros({ rows, 64 }, tc.float32) end)
    end
  end)

  it("squeezes dimensions, and counts elements", function()
    local kernel = tc.kernel{
      name = "squeezed", args = { tc.gmem({ 4, 96, 64 }, tc.float32), tc.gmem({ 32, 64 }, tc.float32) },
      body = function(a, out)
        tc.emit_pipeline(function(_, x, y) y:store(x:load()) end, {
          grid = { 1 }, in_specs = { tc.block_spec({ false, { element = 32 }, 64 }, function() return 2, 40, 0 end) },
          out_specs = { tc.block_spec({ 32, 64 }, function() return 0, 0 end) },
        })(a, out)
      end,
    }
    local a = numbers({ 4, 96, 64 }, 4)
    local x = a:totable()
    in_all_modes(kernel, equal(table_of(32, 64, function(i, j) return x[3][41 + i][j + 1] end)),
      function() return a, tc.zeros({ 32, 64 }, tc.float32) end)
  end)

  -- Sums over the last dimension of the grid; a block is stored at its last step.
  local function sums(nested)
    return tc.kernel{
      name = "sums", args = { tc.gmem({ 128, 256 }, tc.float32), tc.gmem({ 128, 32 }, tc.float32) },
      body = function(a, out)
        local function inner(read, write, m)
          local sum = tc.var(tc.full({ 64, 32 }, 0, tc.float32))
          tc.emit_pipeline(function(_, x) sum:set(sum:get() + x:load()) end, {
            grid = { 8 }, max_concurrent_steps = 3,
            in_specs = { tc.block_spec({ 64, 32 }, function(k) return m, k end) },
          })(read)
          write:store(sum:get())
        end
        if nested then
          tc.emit_pipeline(function(info, z) inner(a, z, info.index[1]) end, {
            grid = { 2 }, max_concurrent_steps = 2,
            out_specs = { tc.block_spec({ 64, 32 }, function(m) return m, 0 end) },
          })(out)
          return
        end
        local sum = tc.var(tc.full({ 64, 32 }, 0, tc.float32))
        tc.emit_pipeline(function(info, x, z)
          tc.when(info.index[2]:eq(0), function() sum:set(tc.full({ 64, 32 }, 0, tc.float32)) end)
          sum:set(sum:get() + x:load())
          z:store(sum:get())
        end, {
          grid = { 2, 8 }, max_concurrent_steps = 3,
          in_specs = { tc.block_spec({ 64, 32 }, function(m, k) return m, k end) },
          out_specs = { tc.block_spec({ 64, 32 }, function(m) return m, 0 end) },
        })(a, out)
      end,
    }
  end
  for _, nested in ipairs{ false, true } do
    it(nested and "nests" or "stores a block at the last of its steps", function()
      local a = numbers({ 128, 256 }, 5)
      local x = a:totable()
      local expected = table_of(128, 32, function(i, j)
        local sum = 0
        for k = 0, 7 do sum = sum + x[i + 1][32 * k + j + 1] end
        return sum
      end)
      in_all_modes(sums(nested), equal(expected), function() return a, tc.zeros({ 128, 32 }, tc.float32) end)
    end)
  end

  it("keeps an output that stays the same until the end", function()
    local kernel = tc.kernel{
      name = "still", args = { tc.gmem({ 256, 32 }, tc.float32), tc.gmem({ 64, 32 }, tc.float32) },
      body = function(a, out)
        tc.emit_pipeline(function(info, x, z)
          tc.when(info.step:eq(0), function() z:store(x:load()) end, function() z:store(z:load() + x:load()) end)
        end, {
          grid = { 4 }, max_concurrent_steps = 2,
          in_specs = { tc.block_spec({ 64, 32 }, function(m) return m, 0 end) },
          out_specs = { tc.block_spec({ 64, 32 }, function() return 0, 0 end) },
        })(a, out)
      end,
    }
    local a = numbers({ 256, 32 }, 6)
    local x = a:totable()
    local expected = table_of(64, 32, function(i, j)
      return x[i + 1][j + 1] + x[i + 65][j + 1] + x[i + 129][j + 1] + x[i + 193][j + 1]
    end)
    in_all_modes(kernel, equal(expected), function() return a, tc.zeros({ 64, 32 }, tc.float32) end)
  end)

  local function spec(opts, shape)
    return tc.block_spec(shape or { 64, 64 }, function(m) return m, 0 end, opts)
  end
  local setup = { args = { tc.gmem({ 256, 64 }, tc.float32) }, cluster = { 2 }, cluster_names = { "c" } }
  local function refuses(title, expected, bad, good)
    helper.refuses(title, expected, function(a)
      return function() bad(a) end, good and function() good(a) end
    end, setup)
  end
  local function nothing() end
  refuses("an empty grid", "All elements in the grid must be strictly positive, but got grid=(4, 0)",
    function() tc.emit_pipeline(nothing, { grid = { 4, 0 } }) end,
    function() tc.emit_pipeline(nothing, { grid = { 4, 1 } }) end)
  refuses("multicast inputs", "BlockSpecs with collective_axes are not supported in emit_pipeline",
    function() tc.emit_pipeline(nothing, { grid = { 4 }, in_specs = { spec{ collective_axes = "c" } } }) end,
    function() tc.emit_pipeline(nothing, { grid = { 4 }, in_specs = { spec() } }) end)
  refuses("multicast outputs", "Output BlockSpecs cannot have collective_axes",
    function() tc.emit_pipeline(nothing, { grid = { 4 }, out_specs = { spec{ collective_axes = "c" } } }) end)
  -- The largest delay counts, not the smallest.
  refuses("too few tiles for the largest delay", "max_concurrent_steps must be greater than all delay_release values, "
    .. "but max_concurrent_steps=2 and delay_release_levels=[0, 2].",
    function()
      local specs = { spec(), spec{ delay_release = 2 } }
      tc.emit_pipeline(nothing, { grid = { 4 }, max_concurrent_steps = 2, in_specs = specs })
    end,
    function()
      local specs = { spec(), spec{ delay_release = 2 } }
      tc.emit_pipeline(nothing, { grid = { 4 }, max_concurrent_steps = 3, in_specs = specs })
    end)
  refuses("other refs than specs", "tc.emit_pipeline: 1 in_specs and 0 out_specs, but 2 refs are given",
    function(a) tc.emit_pipeline(nothing, { grid = { 4 }, in_specs = { spec() } })(a, a) end)
  refuses("a block of another rank", "tc.emit_pipeline: ref 1 has 2 dimensions, its block_shape has 3",
    function(a) tc.emit_pipeline(nothing, { grid = { 4 }, in_specs = { spec(nil, { 1, 64, 64 }) } })(a) end)
end)

-- ---- warp-specialised -----------------------------------------------------------------------------------------------

describe("An index_map", function()
  for _, name in ipairs{ "emit_pipeline", "emit_pipeline_warp_specialized" } do
    it("may compute with methods of recorded scalars, and read an argument: " .. name, function()
      local kernel = tc.kernel{
        name = "permuted",
        args = { tc.gmem({ 256, 64 }, tc.float32), tc.gmem({ 4 }, tc.int32), tc.gmem({ 256, 64 }, tc.float32) },
        body = function(a, order, out)
          local run = tc[name](function(_, x, y) y:store(x:load()) end, {
            grid = { 4 }, max_concurrent_steps = 2,
            in_specs = { tc.block_spec({ 64, 64 }, function(m) return m:eq(3):select(0, m + 1), 0 end) },
            out_specs = { tc.block_spec({ 64, 64 }, function(m) return order[m]:load(), 0 end) },
          })
          run(a, out)
        end,
      }
      -- Step i moves block (i + 1) % 4 to block to[i].
      local to, a = { [0] = 2, 0, 3, 1 }, numbers({ 256, 64 }, 5)
      local from = {}
      for i = 0, 3 do from[to[i]] = (i + 1) % 4 end
      in_all_modes(kernel, equal(table_of(256, 64, function(i, j) return a:get(from[i // 64] * 64 + i % 64, j) end)),
        function() return a, tc.from_table({ 2, 0, 3, 1 }, tc.int32), tc.zeros({ 256, 64 }, tc.float32) end)
    end)
  end
end)

describe("tc.emit_pipeline_warp_specialized", function()
  for _, case in ipairs{ { m = 256, n = 128, k = 192 }, { m = 256, n = 128, k = 192, cluster = 2, steps = 2 } } do
    it(("feeds a matmul%s"):format(case.cluster and ", one operand by multicast" or ""), function()
      local a, b = kernels.integers({ case.m, case.k }, tc.bfloat16, 1), kernels.integers({ case.k, case.n },
        tc.bfloat16, 2)
      -- On Hopper a release with cluster barriers is a deferred one of the MMAs, too.
      in_all_modes(pipelines.matmul(case), equal(tc.reference.matmul(a, b)), function()
        return a, b, tc.zeros({ case.m, case.n }, tc.float32)
      end)
    end)
  end

  for _, walk in ipairs{ "nd", "dynamic" } do
    it("stands in a loop over tiles: " .. walk, function()
      local case = { m = 512, n = 192, k = 256, walk = walk }
      local a, b = kernels.integers({ case.m, case.k }, tc.bfloat16, 1), kernels.integers({ case.k, case.n },
        tc.bfloat16, 2)
      in_all_modes(pipelines.tiles(case), equal(tc.reference.matmul(a, b)), function()
        return a, b, tc.zeros({ case.m, case.n }, tc.float32)
      end)
    end)
  end

  for _, case in ipairs{ { "nd", 2 }, { "nd", 3 }, { "nd", 5 }, { "dynamic", 2 }, { "dynamic", 4 }, { "nd", 3, 2 } } do
    local walk, steps, cluster = table.unpack(case)
    it(("of pipelines: the loads of a tile under the end of the one before, %s, %d at once, %d CTAs"):format(
      walk, steps, cluster or 1), function()
      local o = { m = 256, n = 192, k = 192, walk = walk, steps = steps, cluster = cluster, overlaps = true }
      local a, b = kernels.integers({ o.m, o.k }, tc.bfloat16, 1), kernels.integers({ o.k, o.n }, tc.bfloat16, 2)
      in_all_modes(pipelines.tiles(o), equal(tc.reference.matmul(a, b)), function()
        return a, b, tc.zeros({ o.m, o.n }, tc.float32)
      end)
    end)
  end

  for _, o in ipairs{ { rows = 384, columns = 128, turns = 3, steps = 2 },
                      { rows = 384, columns = 128, turns = 3, steps = 3 },
                      { rows = 320, columns = 64, turns = 5, steps = 4, delay = 1 },
                      { rows = 96, columns = 64, turns = 3, steps = 2 },
                      { rows = 384, columns = 128, turns = 4, steps = 5, computes = 2 },
                      { rows = 384, columns = 64, turns = 2, steps = 1 },
                      { rows = 384, columns = 64, turns = 2, steps = 3, apart = true } } do
    local title = {}
    for key, value in pairs(o) do title[#title + 1] = key .. " " .. tostring(value) end
    table.sort(title)
    it("of pipelines streams bands: " .. table.concat(title, ", "), function()
      local a, scale = numbers({ o.rows, o.columns }, 1), numbers({ 1, 64 }, 2)
      local bias = numbers({ o.turns, 64 }, 3)
      local x, y, z = a:totable(), scale:totable(), bias:totable()
      local expected = table_of(o.rows, o.columns, function(i, j)
        return x[i + 1][j + 1] * y[1][j % 64 + 1] + z[i // (o.rows // o.turns) + 1][j % 64 + 1]
      end)
      in_all_modes(pipelines.turns(o), equal(expected), function()
        return a, scale, bias, tc.zeros({ o.rows, o.columns }, tc.float32)
      end)
    end)
  end

  it("of pipelines whose turns are not counted is a hazard", function()
    local o = { rows = 384, columns = 128, turns = 3, steps = 3, miscounted = true }
    local report = pipelines.turns(o):emulate({ target = "sm_100a", mode = "check" }, numbers({ o.rows, o.columns }, 1),
      numbers({ 1, 64 }, 2), numbers({ o.turns, 64 }, 3), tc.zeros({ o.rows, o.columns }, tc.float32))
    assert.is_true(#report.hazards > 0)
  end)

  it("of pipelines has no gap between its runs", function()
    local function clocks(overlaps)
      local o = { m = 512, n = 192, k = 256, walk = "nd", workers = 1, steps = 4, overlaps = overlaps }
      return pipelines.tiles(o):info{ target = "sm_100a" }.estimate.microseconds
    end
    assert.is_true(clocks(true) < 0.95 * clocks(false))
  end)

  it("takes a pipeline of one role in its body", function()
    local a, b = numbers({ 128, 64 }, 1), numbers({ 96, 64 }, 2)
    local x, y = a:totable(), b:totable()
    local expected = table_of(128, 64, function(i, j)
      local sum = x[i + 1][j + 1]
      for r = 1, 96 do sum = sum + y[r][j + 1] end
      return sum
    end)
    in_all_modes(pipelines.inner(), equal(expected), function() return a, b, tc.zeros({ 128, 64 }, tc.float32) end)
  end)

  it("carries values over the steps in compute_context", function()
    local kernel = tc.kernel{
      name = "carry", args = { tc.gmem({ 512, 64 }, tc.float32), tc.gmem({ 64, 64 }, tc.float32) },
      body = function(a, out)
        local sum
        tc.emit_pipeline_warp_specialized(function(_, x) sum:set(sum:get() + x:load()) end, {
          grid = { 8 }, max_concurrent_steps = 3, memory_registers = 40,
          in_specs = { tc.block_spec({ 64, 64 }, function(k) return k, 0 end) },
          compute_context = function(run)
            sum = tc.var(tc.full({ 64, 64 }, 0, tc.float32))
            run()
            out:store(sum:get())
          end,
        })(a)
      end,
    }
    local a = numbers({ 512, 64 }, 7)
    local x = a:totable()
    local expected = table_of(64, 64, function(i, j)
      local sum = 0
      for k = 0, 7 do sum = sum + x[64 * k + i + 1][j + 1] end
      return sum
    end)
    in_all_modes(kernel, equal(expected), function() return a, tc.zeros({ 64, 64 }, tc.float32) end)
  end)

  it("shares tiles among several compute roles", function()
    local kernel = tc.kernel{
      name = "shared", args = { tc.gmem({ 256, 64 }, tc.float32), tc.gmem({ 2, 256, 64 }, tc.float32) },
      body = function(a, out)
        local compute = { tc.role{ name = "first", warpgroups = 1 }, tc.role{ name = "second", warpgroups = 1 } }
        tc.emit_pipeline_warp_specialized(function(info, x)
          out:at(info.compute):tile({ info.index[1], 0 }, { 64, 64 }):store(x:load() * (info.compute + 1))
        end, {
          grid = { 4 }, max_concurrent_steps = 2, compute = compute, memory = tc.role{ name = "fetch", warps = 1 },
          in_specs = { tc.block_spec({ 64, 64 }, function(m) return m, 0 end) },
        })(a)
      end,
    }
    local a = numbers({ 256, 64 }, 8)
    local x = a:totable()
    local list = {}
    for c = 1, 2 do
      list[c] = {}
      for i = 1, 256 do
        list[c][i] = {}
        for j = 1, 64 do list[c][i][j] = c * x[i][j] end
      end
    end
    in_all_modes(kernel, equal(tc.from_table(list, tc.float32, { 2, 256, 64 })), function()
      return a, tc.zeros({ 2, 256, 64 }, tc.float32)
    end)
  end)

  it("shows a tile that is given back while an MMA reads it", function()
    local kernel = tc.kernel{
      name = "early", args = { tc.gmem({ 128, 512 }, tc.bfloat16), tc.gmem({ 512, 64 }, tc.bfloat16) },
      body = function(a, b)
        local acc = tc.tmem({ 128, 64 }, tc.float32)
        local done = tc.barrier{ orders_tensor_core = true }
        tc.emit_pipeline_warp_specialized(function(info, x, y)
          tc.mma(acc, x, y, { accumulate = info.step:gt(0) })
          tc.when(info.step:eq(7), function()
            tc.commit_arrive(done)
            tc.barrier_wait(done)
          end)
        end, {
          grid = { 8 }, max_concurrent_steps = 2,
          in_specs = { tc.block_spec({ 128, 64 }, function(k) return 0, k end),
            tc.block_spec({ 64, 64 }, function(k) return k, 0 end) },
        })(a, b)
      end,
    }
    local report = kernel:emulate({ target = "sm_100a", mode = "check" }, tc.zeros({ 128, 512 }, tc.bfloat16),
      tc.zeros({ 512, 64 }, tc.bfloat16))
    assert.is_true(#report.hazards > 0)
  end)

  local setup = { args = { tc.gmem({ 256, 64 }, tc.float32) }, cluster = { 2, 2 }, cluster_names = { "c", "d" } }
  local function nothing() end
  local function spec(opts)
    return tc.block_spec({ 64, 64 }, function(m) return m, 0 end, opts)
  end
  local function refuses(title, expected, bad, good)
    helper.refuses(title, expected, function(a)
      return function() bad(a) end, good and function() good(a) end
    end, setup)
  end
  local function emit(opts)
    opts.grid = opts.grid or { 4 }
    return tc.emit_pipeline_warp_specialized(nothing, opts)
  end
  refuses("two multicast axes", "Only a single collective axis supported in input BlockSpecs, but got (c, d)",
    function() emit{ in_specs = { spec{ collective_axes = { "c", "d" } } } } end,
    function() emit{ in_specs = { spec{ collective_axes = { "c" } } } } end)
  refuses("different delays",
    "All inputs must have the same delay_release, but in_spec.delay_release=1 != delay_release=0",
    function() emit{ in_specs = { spec(), spec{ delay_release = 1 } } } end,
    function() emit{ in_specs = { spec{ delay_release = 1 }, spec{ delay_release = 1 } } } end)
  refuses("too few tiles",
    "max_concurrent_steps must be greater than delay_release, but max_concurrent_steps=2, delay_release=2",
    function() emit{ in_specs = { spec{ delay_release = 2 } } } end,
    function() emit{ in_specs = { spec{ delay_release = 2 } }, max_concurrent_steps = 3 } end)
  refuses("a pipeline of pipelines of different sizes", "A pipeline of pipelines is not supported with dynamic grids",
    function() emit{ grid = { tc.axis_index(0) + 1 }, turn = tc.axis_index(0) } end,
    function() emit{ grid = { 4 }, turn = tc.axis_index(0) } end)
  refuses("turns before the first",
    "bad argument #2 to 'emit_pipeline_warp_specialized' (option 'turn' must be an integer >= 0 or a recorded s32, "
    .. "got integer -1)",
    function() emit{ grid = { 4 }, turn = -1 } end, function() emit{ grid = { 4 }, turn = 0 } end)
  refuses("a place in a role",
    "tc.emit_pipeline_warp_specialized stands in shared code, but this is in a block of role 'other'",
    function() tc.role{ name = "other", warps = 1 }(function() emit{ grid = { 4 } } end) end)
  helper.refuses("a second call of a pipeline with turn",
    "A pipeline with turn is called once: two calls would take the same steps of the ring", function(a)
      local run = tc.emit_pipeline_warp_specialized(function() end, { grid = { 4 }, turn = tc.axis_index(0),
        in_specs = { tc.block_spec({ 8, 64 }, function(i) return i, 0 end) } })
      run(a)
      return function() run(a) end
    end, { args = { tc.gmem({ 64, 64 }, tc.float16) } })
  refuses("outputs of several roles", "SMEM outputs are not supported with multiple compute warpgroups",
    function()
      emit{ out_specs = { spec() }, compute = { tc.role{ warpgroups = 1 }, tc.role{ warpgroups = 1 } } }
    end, function() emit{ out_specs = { spec() }, num_compute_wgs = 2 } end)

  for _, case in ipairs{ { 0, "Pipeline was not called in `compute_context`" }, { 1 },
                         { 2, "Cannot call pipeline more than once in `compute_context`" } } do
    it(("wants the pipeline called once, not %d times"):format(case[1]), function()
      helper.recording(setup, function(_, a)
        local run = emit{ in_specs = { spec() }, compute_context = function(run)
          for _ = 1, case[1] do run() end
        end }
        if not case[2] then return run(a) end
        assert.are.equal(case[2], helper.first_line(helper.message(function() run(a) end)))
      end)
    end)
  end
end)

describe("A pipeline that is never called", function()
  local function emit(name)
    local spec = tc.block_spec({ 8, 64 }, function(i) return i, 0 end)
    return tc[name](function() end, { grid = { 4 }, in_specs = { spec } })
  end
  local args = { tc.gmem({ 64, 64 }, tc.float16) }

  for _, name in ipairs{ "emit_pipeline", "emit_pipeline_warp_specialized" } do
    it("is refused where the recording ends: " .. name, function()
      local message = helper.message(function()
        tc.kernel{ name = "unused", args = args, body = function() emit(name) end }
      end)
      assert.are.equal(("The result of this tc.%s is never called: nothing of it is recorded"):format(name),
        helper.first_line(message))
      assert.is_string(tc.kernel{ name = "used", args = args, body = function(a) emit(name)(a) end }:ptx())
    end)
  end

  it("may still be called at the prompt", function()
    local k, a = tc.record{ name = "prompt", args = args }
    local run = emit "emit_pipeline"
    helper.message(function() k:finish() end)
    run(a)
    k:finish()
    assert.is_string(k:ptx())
  end)

  it("is none whose call failed and was taken back", function()
    local message = helper.message(function()
      tc.kernel{ name = "failed", args = args, grid = { 2 }, body = function(a)
        local run = emit "emit_pipeline"
        pcall(function()
          tc.when(tc.axis_index(0):eq(0), function()
            run(a)
            error "not so"
          end)
        end)
      end }
    end)
    assert.is_truthy(message:find "is never called")
  end)

  it("is forgotten with the block that made it", function()
    tc.kernel{ name = "gone", args = args, grid = { 2 }, body = function()
      pcall(tc.when, tc.axis_index(0):eq(0), function()
        emit "emit_pipeline"
        error "not so"
      end)
    end }
  end)
end)
