-- The cases of Pallas:Mosaic GPU's own tests of scheduling, clusters, copies and pipelines that no other spec has
-- (docs/conformance.md lists all), on the emulator; all are exact.  Where a case is reduced, its line says how.
local tc = require "tcmma"
local cluster_kernels = require "cluster_kernels"
local pallas = require "pallas_kernels"
local check = require "pallas_check"

local each, run, describes, exact, copies = check.each, check.run, check.describes, check.exact, check.copies

-- ---- the work of a grid ---------------------------------------------------------------------------------------

describe("Scheduling:", function()
  local function shares(o, options)
    local kernel, total = pallas.dynamic(o)
    local out, turns = tc.zeros({ total }, tc.i32), tc.zeros({ total }, tc.i32)
    run(kernel, options, out, turns)
    local most = 0
    for i, n in ipairs(out:totable()) do
      assert.are.equal(1, n)
      assert.is_true(turns:get(i - 1) >= 1)
      most = math.max(most, turns:get(i - 1))
    end
    assert.is_true(most > 1)
  end

  -- The emulator starts CTAs as it finds room for them; a grid of 4 along one axis has work to take over.
  it("test_cluster_launch_control and gpu_test's", function()
    each({ { 4, 1, 1 }, { 1, 4, 1 }, { 1, 1, 4 } }, function(grid)
      each({ { 1 }, { 1, 2 }, { 2, 1 } }, function(cluster)
        shares({ grid = grid, cluster = #cluster > 1 and cluster or nil }, { mode = "check" })
      end)
    end)
  end)

  -- Pallas starts a CTA on every SM; the emulator starts one where it finds room, in random mode at any time.
  -- Every one that starts has a tile of its own, and counts to one more than it took over.
  local function is_shared_among(turns, size, total)
    local with_turn = {}
    for _, turn in ipairs(turns:totable()) do with_turn[turn] = (with_turn[turn] or 0) + 1 end
    local workers, stolen = with_turn[1], 0
    for turn = 2, #with_turn do
      assert.is_true(with_turn[turn] <= with_turn[turn - 1])
      stolen = stolen + with_turn[turn]
    end
    assert.are.equal(total, workers + stolen)
    assert.are.equal(0, workers % size)
    return workers // size, stolen // size
  end

  for _, carry in ipairs{ false, true } do
    it(carry and "test_dynamic_work_scheduling_with_carry" or "test_dynamic_work_scheduling", function()
      each({ { grid = { 100 }, size = 1 }, { grid = { 300 }, size = 1 }, { grid = { 3, 3, 3, 3, 3 }, size = 1 },
             { grid = { 50 }, cluster = { 2, 1 }, size = 2 }, { grid = { 50, 4 }, cluster = { 1, 2 }, size = 2 } },
        function(o)
          shares({ grid = o.grid, cluster = o.cluster, carry = carry }, {})
          each({ 1, 2 }, function(seed)
            local kernel, total = pallas.dynamic{ grid = o.grid, cluster = o.cluster, carry = carry }
            local out, turns = tc.zeros({ total }, tc.i32), tc.zeros({ total }, tc.i32)
            run(kernel, { mode = "random", seed = seed }, out, turns)
            assert.is_true(out:equal(tc.full({ total }, 1, tc.i32)))
            local clusters, stolen = is_shared_among(turns, o.size, total)
            assert.is_true(clusters > 1 and stolen > 0)
          end)
        end)
    end)
  end

  it("test_planar_snake", function()
    each({ 4, 16 }, function(m)
      each({ 4, 16 }, function(n)
        each({ 0, 1 }, function(minor)
          each({ 1, 2, 4 }, function(width)
            local seen = {}
            local last
            for i = 0, m * n - 1 do
              local row, column = tc.planar_snake(i, { m, n }, minor, width)
              assert.is_true(row >= 0 and row < m and column >= 0 and column < n)
              assert.is_nil(seen[row * n + column])
              seen[row * n + column] = true
              -- Neighbours in time are near each other.
              if last then
                assert.is_true(math.abs(row - last[1]) <= width and math.abs(column - last[2]) <= width)
              end
              last = { row, column }
            end
          end)
        end)
      end)
    end)
  end)
end)

-- ---- clusters -------------------------------------------------------------------------------------------------

local subsets = { {}, { "cx" }, { "cy" }, { "cz" }, { "cx", "cy" }, { "cx", "cz" }, { "cy", "cz" },
  { "cx", "cy", "cz" } }

describe("Clusters:", function()
  -- Cluster sizes of the axes; at most 8 CTAs, where Pallas' case of 4 has up to 16.
  it("test_tma_load_multicast", function()
    each({ { 2, 2, 2 }, { 1, 2, 2 }, { 4, 2, 1 }, { 2, 1, 4 }, { 1, 4, 2 } }, function(sizes)
      each(subsets, function(axes)
        local o = { cluster = sizes, axes = axes }
        local kernel, size = pallas.multicast(o)
        local a = exact({ size, 64, 32 }, tc.f32, 1)
        local source, expected = a:totable(), {}
        for rank = 0, size - 1 do
          local index = { rank // (sizes[2] * sizes[3]), rank // sizes[3] % sizes[2], rank % sizes[3] }
          for _, axis in ipairs(axes) do index[("xyz"):find(axis:sub(2), 1, true)] = 0 end
          expected[rank + 1] = source[pallas.linear(index, sizes) + 1]
        end
        copies(kernel, a, tc.from_table(expected, tc.f32), { axes = table.concat(axes, ",") })
      end)
    end)
  end)

  it("collective_arrive", function()
    each({ { 2, 2, 2 }, { 4, 2, 1 }, { 1, 2, 4 } }, function(sizes)
      each({ { "cx" }, { "cy" }, { "cz" }, { "cx", "cy" }, { "cy", "cz" }, { "cx", "cz" }, { "cx", "cy", "cz" },
             { { "cx", "cy" } }, { { "cy", "cz" } }, { { "cx", "cz" } }, { { "cx", "cy", "cz" } },
             { { "cx", "cy" }, "cz" }, { "cx", { "cy", "cz" } } }, function(axes)
        local kernel, size = pallas.cluster_barrier{ cluster = sizes, axes = axes }
        local expected = {}
        for rank = 0, size - 1 do
          local index, sum = { rank // (sizes[2] * sizes[3]), rank // sizes[3] % sizes[2], rank % sizes[3] }, 0
          for _, entry in ipairs(axes) do
            for _, peer in ipairs(pallas.along(entry, index, sizes)) do sum = sum + pallas.linear(peer, sizes) + 1 end
          end
          expected[rank + 1] = sum
        end
        local written, sums = tc.zeros({ size }, tc.i32), tc.zeros({ size }, tc.i32)
        run(kernel, { mode = "check" }, written, sums)
        assert.are.same(expected, sums:totable())
      end)
    end)
  end)

  it("AsyncCopyTest, multicast", function()
    each({ 2, 4 }, function(size)
      each({ { 64, 64, tc.f32 }, { 64, 64, tc.f16 } }, function(tile)
        local a = exact({ 2 * tile[1], tile[2] }, tile[3], 1)
        local kernel = cluster_kernels.pass{ steps = 2, stages = 2, size = size, shape = { tile[1], tile[2] },
          dtype = tile[3] }
        local list = {}
        for _ = 1, size do
          for _, row in ipairs(a:totable()) do list[#list + 1] = row end
        end
        copies(kernel, a, tc.from_table(list, tile[3]), { size = size })
      end)
    end)
  end)
end)

-- ---- copies ---------------------------------------------------------------------------------------------------

describe("AsyncCopyTest:", function()
  it("load and store, basic", function()
    each({ tc.f32, tc.f16, tc.i4 }, function(dtype)
      each({ "none", 32, 64, 128 }, function(swizzle)
        each({ { 64 }, { 5 }, { 2, 3, 5 } }, function(lead)
          local shape = { table.unpack(lead) }
          shape[#shape + 1] = swizzle == "none" and 64 or 8 * swizzle // dtype.bits
          if swizzle == "none" or shape[#shape - 1] % 8 == 0 then
            local a = exact(shape, dtype, 1)
            local o = { shape = shape, dtype = dtype, swizzle = swizzle }
            copies(pallas.copy(o), a, a, o)
          end
        end)
      end)
    end)
  end)

  it("1-D", function()
    each({ { 256, tc.f32 }, { 64, tc.f16 }, { 16, tc.i8 } }, function(line)
      local a = exact({ line[1] }, line[2], 1)
      copies(pallas.copy{ shape = { line[1] }, dtype = line[2] }, a, a, { dtype = line[2] })
    end)
  end)

  it("squeezed, sliced and tiled", function()
    each({ tc.f32, tc.f16 }, function(dtype)
      local a = exact({ 3, 64, 128 }, dtype, 1)
      local whole = a:totable()
      copies(pallas.copy{ shape = { 3, 64, 128 }, dtype = dtype, squeezed = 2, block = { 64, 128 } }, a,
        tc.from_table(whole[3], dtype), { dtype = dtype })
      local part = {}
      for i = 1, 32 do part[i] = table.move(whole[2][32 + i], 65, 128, 1, {}) end
      copies(pallas.copy{ shape = { 3, 64, 128 }, dtype = dtype, squeezed = 1, block = { 32, 64 }, index = { 1, 1 } },
        a, tc.from_table(part, dtype), { dtype = dtype })
    end)
  end)

  it("test_copy_smem_to_gmem, commit groups", function()
    local a = exact({ 128, 64 }, tc.f32, 1)
    each({ "sm_100a", "sm_90a" }, function(target)
      each({ 1, 2, 4 }, function(size)
        copies(pallas.commit_groups(size), a, a, { target = target, mode = "check", size = size })
      end)
    end)
  end)

  -- offsets in tiles; what lies outside reads as 0
  it("test_out_of_bounds_tma_reads", function()
    local a = exact({ 40, 72 }, tc.f32, 1)
    local whole = a:totable()
    each({ { 0, 0 }, { 1, 0 }, { 0, 2 }, { 1, 2 }, { 2, 0 } }, function(index)
      local expected = {}
      for i = 1, 32 do
        expected[i] = {}
        local row = whole[32 * index[1] + i]
        for j = 1, 32 do expected[i][j] = row and row[32 * index[2] + j] or 0 end
      end
      copies(pallas.copy{ shape = { 40, 72 }, dtype = tc.f32, block = { 32, 32 }, index = index }, a,
        tc.from_table(expected, tc.f32), {})
    end)
  end)
end)

-- ---- pipelines ------------------------------------------------------------------------------------------------

for _, specialized in ipairs{ false, true } do
  describe(specialized and "WarpSpecializedPipelineTest:" or "PipelineTest:", function()
    local function streams(o)
      o.specialized = specialized
      each({ "sm_100a", "sm_90a" }, function(target)
        local a, b = exact({ o.rows, o.columns }, tc.f32, 1), exact({ o.rows, o.columns }, tc.f32, 2)
        local out = tc.zeros({ o.rows, o.columns }, tc.f32)
        local expected = a
        if o.add then
          local x, y = a:totable(), b:totable()
          for i, row in ipairs(x) do
            for j in ipairs(row) do row[j] = row[j] + y[i][j] end
          end
          expected = tc.from_table(x, tc.f32)
        end
        local options = { target = target, mode = o.rows * o.columns <= 64 * 256 and "check" or "fast" }
        if o.add then run(pallas.pipeline(o), options, a, b, out) else run(pallas.pipeline(o), options, a, out) end
        if not out:equal(expected) then error(describes(o)) end
      end)
    end

    it("copies 512 x 512", function()
      each({ 2, 3 }, function(steps) streams{ rows = 512, columns = 512, steps = steps } end)
      if specialized then streams{ rows = 512, columns = 512, steps = 2, manual = true, no_output = true } end
    end)

    it("repeats, with every swizzle", function()
      each({ 1, 10 }, function(runs)
        each({ "none", 32, 64, 128 }, function(swizzle)
          streams{ rows = 128, columns = 128, tn = swizzle == "none" and 64 or swizzle // 4, steps = 2, runs = runs,
                   swizzle = swizzle }
        end)
      end)
    end)

    it("adds elements", function()
      each({ 64, 256 }, function(rows)
        each({ 64, 256 }, function(columns) streams{ rows = rows, columns = columns, steps = 2, add = true } end)
      end)
    end)

    it("has inputs alone", function()
      each({ 2, 3, 4 }, function(steps) streams{ rows = 256, columns = 64, steps = steps, no_output = true } end)
    end)

    it("releases late, inputs alike and not", function()
      each({ 2, 3, 4 }, function(steps)
        each({ 0, 1 }, function(delay)
          streams{ rows = 512, columns = 64, steps = steps, delay = delay, add = true }
          if not specialized then
            streams{ rows = 512, columns = 64, steps = steps, delay = delay, delay_second = 1 - delay, add = true }
          end
        end)
      end)
    end)
  end)
end
