-- Kernels of clusters, for the emulator's specs and a GPU's.
local tc = require "tcmma"

local cluster = {}

-- A matmul in clusters of `rows` x `columns` CTAs: A is shared along a row of CTAs, B along a column.
-- Every CTA's slots are written by its row and column, hence released to them.
function cluster.multicast(o)
  local TM, TN, TK = 128, o.tn or 64, 64
  local rows, columns, stages = o.rows, o.columns, o.stages or 2
  local M, N, K = TM * rows, TN * columns, TK * o.steps
  local axes = {}
  if columns > 1 then axes[#axes + 1] = "column" end
  if rows > 1 then axes[#axes + 1] = "row" end
  return tc.kernel{
    name = "multicast",
    args = { tc.gmem({ M, K }, tc.float16), tc.gmem({ K, N }, tc.float16), tc.gmem({ M, N }, tc.float32) },
    cluster = { rows, columns }, cluster_names = { "row", "column" },
    body = function(a, b, out)
      local m, n = tc.axis_index "row", tc.axis_index "column"
      local a_smem, b_smem = tc.smem({ stages, TM, TK }, tc.float16), tc.smem({ stages, TK, TN }, tc.float16)
      local acc = tc.tmem({ TM, TN }, tc.float32)
      local loaded = tc.barrier{ num_arrivals = 2, num_barriers = stages, name = "loaded" }
      local consumed = tc.cluster_barrier{ collective_axes = axes, num_barriers = stages,
        orders_tensor_core = true, name = "consumed" }
      local done = tc.barrier{ orders_tensor_core = true, name = "done" }
      tc.role{ name = "load", warps = 1 }(function()
        tc.range(o.steps, function(k)
          local s = k % stages
          tc.when(k:ge(stages), function() tc.barrier_wait(consumed[s]) end)
          tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), a_smem[s], loaded[s],
            { collective_axes = columns > 1 and "column" or nil })
          tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[s], loaded[s],
            { collective_axes = rows > 1 and "row" or nil })
        end)
      end)
      tc.role{ name = "mma", warps = 1 }(function()
        tc.range(o.steps, function(k)
          local s = k % stages
          tc.barrier_wait(loaded[s])
          tc.mma(acc, a_smem[s], b_smem[s], { barrier = consumed[s], accumulate = k:gt(0) })
        end)
        tc.commit_arrive(done)
      end)
      tc.role{ name = "store", warpgroups = 1 }(function()
        tc.barrier_wait(done)
        out:tile({ m, n }, { TM, TN }):store(tc.async_load_tmem(acc))
      end)
    end,
  }
end

-- Copies alone: every CTA of the cluster loads all tiles by multicast and stores its share.
function cluster.pass(o)
  local steps, stages, size = o.steps, o.stages, o.size
  local R, C = o.shape[1], o.shape[2]
  return tc.kernel{
    name = "pass", cluster = { size }, cluster_names = { "cta" },
    args = { tc.gmem({ steps * R, C }, o.dtype), tc.gmem({ size * steps * R, C }, o.dtype) },
    body = function(a, out)
      local cta = tc.axis_index "cta"
      local smem = tc.smem({ stages, R, C }, o.dtype, { swizzle = o.swizzle })
      local loaded = tc.barrier{ num_barriers = stages }
      local freed = tc.cluster_barrier{ collective_axes = "cta", num_barriers = stages }
      tc.role{ name = "load", warps = o.warps or 1 }(function()
        tc.range(steps, function(i)
          local s = i % stages
          tc.when(i:ge(stages), function() tc.barrier_wait(freed[s]) end)
          tc.copy_gmem_to_smem(a:tile({ i, 0 }, { R, C }), smem[s], loaded[s], { collective_axes = "cta" })
        end)
      end)
      tc.role{ name = "store", warpgroups = 1 }(function()
        tc.range(steps, function(i)
          local s = i % stages
          tc.barrier_wait(loaded[s])
          if o.fragments then
            out:tile({ cta * steps + i, 0 }, { R, C }):store(smem[s]:load())
          else
            tc.copy_smem_to_gmem(smem[s], out:tile({ cta * steps + i, 0 }, { R, C }))
            tc.wait_smem_to_gmem(0, { wait_read_only = true })
          end
          tc.barrier_arrive(freed[s])
        end)
      end)
    end,
  }
end

-- Partial sums of `size` CTAs meet in the first one, which adds them in the order of ranks.  `how`: "scalar" stores one
-- element by itself too; "counted" leaves the arrival to the store.
function cluster.reduce(size, R, C, how)
  return tc.kernel{
    name = "reduce", cluster = { size }, cluster_names = { "part" }, grid = { 2 }, grid_names = { "tile" },
    args = { tc.gmem({ size, 2 * R, C }, tc.float32), tc.gmem({ 2 * R, C }, tc.float32) },
    body = function(parts, out)
      local part, tile = tc.axis_index "part", tc.axis_index "tile"
      local others = tc.smem({ size - 1, R, C }, tc.float32)
      local ready = tc.barrier{ num_arrivals = size - 1 }
      local mine = parts[part]:tile({ tile, 0 }, { R, C }):load()
      tc.when(part:gt(0), function()
        local there = tc.cluster_ref(others, 0)[part - 1]
        if how == "counted" then return there:store(mine, { barrier = ready }) end
        there:store(mine)
        if how == "scalar" then tc.cluster_ref(others[part - 1], 0)[0][0]:store(7.5) end
        tc.barrier_arrive(tc.cluster_ref(ready, 0))
      end, function()
        tc.barrier_wait(ready)
        local sum = mine
        for i = 0, size - 2 do sum = sum + others[i]:load() end
        out:tile({ tile, 0 }, { R, C }):store(sum)
      end)
    end,
  }
end

-- Pairs of CTAs, one above the other, walk over pairs of tiles and share B; any M, N, K.
function cluster.persistent(o)
  local TM, TN, TK, stages = 128, o.tn, 64, o.stages
  local across, steps = tc.cdiv(o.n, TN), tc.cdiv(o.k, TK)
  local tiles = tc.cdiv(o.m, 2 * TM) * across
  return tc.kernel{
    name = "persistent", cluster = { 2 }, cluster_names = { "cta" }, grid = { o.clusters }, grid_names = { "pair" },
    args = { tc.gmem({ "M", "K" }, tc.bfloat16), tc.gmem({ "K", "N" }, tc.bfloat16),
             tc.gmem({ "M", "N" }, tc.float32) },
    body = function(a, b, out)
      local cta, pair = tc.axis_index "cta", tc.axis_index "pair"
      local a_smem, b_smem = tc.smem({ stages, TM, TK }, tc.bfloat16), tc.smem({ stages, TK, TN }, tc.bfloat16)
      local acc = tc.tmem({ TM, TN }, tc.float32)
      local loaded = tc.barrier{ num_arrivals = 2, num_barriers = stages }
      local consumed = tc.cluster_barrier{ collective_axes = "cta", num_barriers = stages, orders_tensor_core = true }
      local done, read = tc.barrier{ orders_tensor_core = true }, tc.barrier{ orders_tensor_core = true }
      local load, issue = tc.role{ name = "load", warps = 1 }, tc.role{ name = "mma", warps = 1 }
      local store = tc.role{ name = "store", warpgroups = 1 }
      tc.range(pair, tiles, o.clusters, function(t)
        local m, n, before = t // across * 2 + cta, t % across, (t - pair) // o.clusters * steps
        load(function()
          tc.range(steps, function(k)
            local s = (before + k) % stages
            tc.when((before + k):ge(stages), function() tc.barrier_wait(consumed[s]) end)
            tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, TK }), a_smem[s], loaded[s])
            tc.copy_gmem_to_smem(b:tile({ k, n }, { TK, TN }), b_smem[s], loaded[s], { collective_axes = "cta" })
          end)
        end)
        issue(function()
          tc.when(before:gt(0), function() tc.barrier_wait(read) end)
          tc.range(steps, function(k)
            local s = (before + k) % stages
            tc.barrier_wait(loaded[s])
            tc.mma(acc, a_smem[s], b_smem[s], { barrier = consumed[s], accumulate = k:gt(0) })
          end)
          tc.commit_arrive(done)
        end)
        store(function()
          tc.barrier_wait(done)
          out:tile({ m, n }, { TM, TN }):store(tc.async_load_tmem(acc))
          tc.barrier_arrive(read)
        end)
      end)
    end,
  }
end

return cluster
