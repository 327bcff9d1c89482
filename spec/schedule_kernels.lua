-- Kernels whose CTAs share the tiles of a grid: of spec/schedule_spec.lua, and on a GPU.
local tc = require "tcmma"

local schedules = {}

local function cdiv(a, b) return (a + b - 1) // b end

local names = { "g0", "g1", "g2", "g3" }

-- out[linear index of the element] += 1, seen[linear index] = turn + 1, each by a role.
function schedules.counting(o)
  local total, cluster = 1, o.cluster or 1
  for _, size in ipairs(o.grid) do total = total * size end
  local grid_names = { table.unpack(names, 1, #o.grid) }
  return tc.kernel{
    name = "counting", args = { tc.gmem({ total * cluster }, tc.int32), tc.gmem({ total * cluster }, tc.int32) },
    grid = o.grid, grid_names = grid_names,
    cluster = o.cluster and { cluster } or nil, cluster_names = o.cluster and { "cta" } or nil,
    body = function(out, seen)
      local function place(info)
        local at = 0
        for d, size in ipairs(o.grid) do at = at * size + info.index[d] end
        if o.cluster then at = at * cluster + tc.axis_index "cta" end
        return at
      end
      local function count(info)
        local at = place(info)
        out[at]:store(out[at]:load() + 1)
      end
      local function see(info) seen[place(info)]:store(info.local_index + 1) end
      if not o.roles then
        tc.dynamic_scheduling_loop(grid_names, function(info)
          count(info)
          see(info)
        end)
        return
      end
      local one, four = tc.role{ name = "one", warps = 1 }, tc.role{ name = "four", warpgroups = 1 }
      tc.dynamic_scheduling_loop(grid_names, function(info)
        one(function() count(info) end)
        four(function() see(info) end)
      end)
    end,
  }, total * cluster
end

-- Three roles, a ring of stages that runs on over the tiles, two accumulators that alternate.
-- o.walk: "dynamic" or "nd"; o.snake: width of the strips of tc.planar_snake.
function schedules.persistent(o)
  local TM, TN, TK, STAGES = 128, 64, 64, o.stages or 3
  local m_tiles, n_tiles, steps = cdiv(o.m, TM), cdiv(o.n, TN), cdiv(o.k, TK)
  local tiles = m_tiles * n_tiles
  local dtype = tc.bfloat16
  return tc.kernel{
    name = "persistent",
    args = { tc.gmem({ o.m, o.k }, dtype), tc.gmem({ o.k, o.n }, dtype), tc.gmem({ o.m, o.n }, tc.float32) },
    grid = { o.walk == "dynamic" and tiles or o.workers }, grid_names = { "tile" },
    body = function(a, b, out)
      local a_smem, b_smem = tc.smem({ STAGES, TM, TK }, dtype), tc.smem({ STAGES, TK, TN }, dtype)
      local acc = tc.tmem({ 2, TM, TN }, tc.float32)
      local out_smem = tc.smem({ 2, TM, 32 }, tc.float32)
      local loaded = tc.barrier{ name = "loaded", num_arrivals = 2, num_barriers = STAGES }
      local consumed = tc.barrier{ name = "consumed", num_barriers = STAGES, orders_tensor_core = true }
      local done = tc.barrier{ name = "done", num_barriers = 2, orders_tensor_core = true }
      local drained = tc.barrier{ name = "drained", num_barriers = 2, orders_tensor_core = true }
      local load, mma = tc.role{ name = "load", warps = 1 }, tc.role{ name = "mma", warps = 1 }
      local epilogue = tc.role{ name = "epilogue", warpgroups = 1 }
      local function tile(info)
        local turn = info.local_index
        local m, n = tc.planar_snake(info.index[1], { m_tiles, n_tiles }, 1, o.snake or 2)
        local slot = turn % 2
        load(function()
          tc.range(steps, function(k)
            local step = turn * steps + k
            local s = step % STAGES
            tc.when(step:ge(STAGES), function() tc.barrier_wait(consumed[s]) end)
            tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), a_smem[s], loaded[s])
            tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[s], loaded[s])
          end)
        end)
        mma(function()
          tc.when(turn:ge(2), function() tc.barrier_wait(drained[slot]) end)
          tc.range(steps, function(k)
            local s = (turn * steps + k) % STAGES
            tc.barrier_wait(loaded[s])
            tc.mma(acc[slot], a_smem[s], b_smem[s], { barrier = consumed[s], accumulate = k:gt(0) })
          end)
          tc.commit_arrive(done[slot])
        end)
        epilogue(function()
          tc.barrier_wait(done[slot])
          for piece = 0, TN // 32 - 1 do
            local x = tc.async_load_tmem(acc[slot]:at(tc.all, tc.ds(piece * 32, 32)))
            if piece == TN // 32 - 1 then tc.barrier_arrive(drained[slot]) end
            tc.wait_smem_to_gmem(1)
            out_smem[piece % 2]:store(x)
            tc.commit_smem()
            tc.copy_smem_to_gmem(out_smem[piece % 2], out:tile({ m, n * (TN // 32) + piece }, { TM, 32 }))
          end
        end)
      end
      if o.walk == "dynamic" then
        tc.dynamic_scheduling_loop("tile", tile)
      else
        tc.nd_loop({ tiles }, tile, { collective_axes = "tile" })
      end
      epilogue(function() tc.wait_smem_to_gmem(0) end)
    end,
  }
end

-- Pairs of CTAs that share their MMAs and take over work together; two accumulators alternate.
function schedules.pairs(o)
  local TM, TN, TK, STAGES = 256, 128, 64, 3
  local m_tiles, n_tiles, steps = o.m // TM, o.n // TN, o.k // TK
  local dtype = tc.float16
  return tc.kernel{
    name = "pairs", args = { tc.gmem({ o.m, o.k }, dtype), tc.gmem({ o.k, o.n }, dtype), tc.gmem({ o.m, o.n },
      tc.float32) },
    grid = { m_tiles * n_tiles }, grid_names = { "tile" }, cluster = { 2 }, cluster_names = { "cta" },
    body = function(a, b, out)
      local cta = tc.axis_index "cta"
      local a_smem, b_smem = tc.smem({ STAGES, TM // 2, TK }, dtype), tc.smem({ STAGES, TK, TN // 2 }, dtype)
      local acc = tc.tmem({ 2, TM // 2, TN }, tc.float32, { collective = true })
      local out_smem = tc.smem({ 2, TM // 2, 32 }, tc.float32)
      local loaded = tc.barrier{ name = "loaded", num_arrivals = 2, num_barriers = STAGES }
      local consumed = tc.barrier{ name = "consumed", num_barriers = STAGES, orders_tensor_core = true }
      local done = tc.barrier{ name = "done", num_barriers = 2, orders_tensor_core = true }
      local drained = tc.cluster_barrier{ name = "drained", num_barriers = 2, collective_axes = "cta",
        orders_tensor_core = true, leader_tracked = true }
      local load, mma = tc.role{ name = "load", warps = 1 }, tc.role{ name = "mma", warps = 1 }
      local epilogue = tc.role{ name = "epilogue", warpgroups = 1 }
      tc.dynamic_scheduling_loop("tile", function(info)
        local turn = info.local_index
        local m, n = tc.planar_snake(info.index[1], { m_tiles, n_tiles }, 0, 2)
        local slot = turn % 2
        load(function()
          tc.range(steps, function(k)
            local step = turn * steps + k
            local s = step % STAGES
            tc.when(step:ge(STAGES), function() tc.barrier_wait(consumed[s]) end)
            local copies = { { a:tile({ m, k }, { TM, TK }), a_smem }, { b:tile({ k, n }, { TK, TN }), b_smem } }
            for axis, copy in ipairs(copies) do
              tc.copy_gmem_to_smem(copy[1], copy[2][s], loaded[s],
                { collective_axes = "cta", leader_tracked = "partitioned", partition_axis = axis - 1 })
            end
          end)
        end)
        mma(function()
          tc.when(cta:eq(0), function()
            tc.when(turn:ge(2), function() tc.barrier_wait(drained[slot]) end)
            tc.range(steps, function(k)
              local s = (turn * steps + k) % STAGES
              tc.barrier_wait(loaded[s])
              tc.mma(acc[slot], a_smem[s], b_smem[s],
                { barrier = consumed[s], accumulate = k:gt(0), collective_axis = "cta" })
            end)
            tc.commit_arrive(done[slot], { collective_axis = "cta" })
          end)
        end)
        epilogue(function()
          tc.barrier_wait(done[slot])
          for piece = 0, TN // 32 - 1 do
            local x = tc.async_load_tmem(acc[slot]:at(tc.all, tc.ds(32 * piece, 32)))
            if piece == TN // 32 - 1 then tc.barrier_arrive(drained[slot]) end
            tc.wait_smem_to_gmem(1)
            out_smem[piece % 2]:store(x)
            tc.commit_smem()
            tc.copy_smem_to_gmem(out_smem[piece % 2],
              out:tile({ m * 2 + cta, n * (TN // 32) + piece }, { TM // 2, 32 }))
          end
        end)
      end)
      epilogue(function() tc.wait_smem_to_gmem(0) end)
    end,
  }
end

return schedules
