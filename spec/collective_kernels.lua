-- Matmuls of pairs of CTAs: half of A's rows and half of B's columns lie in each, one of them issues.
local tc = require "tcmma"

local collective = {}

local pair = { cluster = { 2 }, cluster_names = { "cta" } }

-- How operands reach the two CTAs, and how the leader learns that they have.
-- leader: each loads its part, the leader's barrier counts both; own: each has a barrier of its own,
-- and the other tells the leader; tile: the leader's barrier counts copies that each CTA cuts itself.
local function tile_of(ref, index, shape, axis, cta)
  local at = { index[1], index[2] }
  at[axis + 1] = at[axis + 1] * 2 + cta
  return ref:tile(at, shape)
end

-- Copies `ref`'s tile of the pair, divided along `axis`, into this CTA's `smem`.
local function load(o, ref, index, smem, shape, axis, cta, barrier)
  if o.copies == "own" then
    tc.copy_gmem_to_smem(tile_of(ref, index, shape, axis, cta), smem, barrier)
  else
    local whole = { shape[1], shape[2] }
    whole[axis + 1] = 2 * whole[axis + 1]
    tc.copy_gmem_to_smem(ref:tile(index, whole), smem, barrier,
      { collective_axes = "cta", leader_tracked = "partitioned", partition_axis = axis })
  end
end

-- One output tile a cluster; roles load, issue and store.
-- o: rows (of a CTA, 64 or 128), n (columns of both), steps, stages, tk, dtype, acc, copies, swizzle.
function collective.matmul(o)
  local TM, TN, TK, stages, steps = o.rows or 128, o.n or 256, o.tk or 64, o.stages or 2, o.steps or 3
  local dtype, acc_dtype = o.dtype or tc.float16, o.acc or tc.float32
  local across, down = o.across or 1, o.down or 1
  local a_shape = o.a_transposed and { TK, TM } or { TM, TK }
  local b_shape = o.b_transposed and { TN // 2, TK } or { TK, TN // 2 }
  local M, N, K = 2 * TM * down, TN * across, TK * steps
  return tc.kernel{
    name = "pair_matmul", cluster = pair.cluster, cluster_names = pair.cluster_names,
    grid = { down, across }, grid_names = { "m", "n" }, target = o.target,
    args = { tc.gmem(o.a_transposed and { K, M } or { M, K }, dtype),
             tc.gmem(o.b_transposed and { N, K } or { K, N }, dtype), tc.gmem({ M, N }, acc_dtype) },
    body = function(a, b, out)
      local m, n, cta = tc.axis_index "m", tc.axis_index "n", tc.axis_index "cta"
      local a_smem = tc.smem({ stages, a_shape[1], a_shape[2] }, dtype, { swizzle = o.swizzle })
      local b_smem = tc.smem({ stages, b_shape[1], b_shape[2] }, dtype, { swizzle = o.swizzle })
      local options = { collective = true }
      if acc_dtype ~= tc.float32 and acc_dtype ~= tc.int32 then options.packed = false end
      local acc = tc.tmem({ TM, TN }, acc_dtype, options)
      local loaded = tc.barrier{ num_arrivals = 2, num_barriers = stages, name = "loaded" }
      local there = o.copies == "own" and tc.cluster_barrier{ collective_axes = "cta", num_barriers = stages,
        leader_tracked = true, name = "there" }
      local consumed = tc.barrier{ num_barriers = stages, orders_tensor_core = true, name = "consumed" }
      local done = tc.barrier{ orders_tensor_core = true, name = "done" }
      tc.role{ name = "load", warps = o.load_warps or 1 }(function()
        tc.range(steps, function(k)
          local s = k % stages
          tc.when(k:ge(stages), function() tc.barrier_wait(consumed[s]) end)
          load(o, a, o.a_transposed and { k, m } or { m, k }, a_smem[s], a_shape, o.a_transposed and 1 or 0, cta,
            loaded[s])
          load(o, b, o.b_transposed and { n, k } or { k, n }, b_smem[s], b_shape, o.b_transposed and 0 or 1, cta,
            loaded[s])
        end)
      end)
      if there then
        tc.role{ name = "tell", warps = 1 }(function()
          tc.range(steps, function(k)
            tc.barrier_wait(loaded[k % stages])
            tc.barrier_arrive(there[k % stages])
          end)
        end)
      end
      tc.role{ name = "mma", warps = o.mma_warps or 1 }(function()
        tc.when(cta:eq(0), function()
          tc.range(steps, function(k)
            local s = k % stages
            tc.barrier_wait((there or loaded)[s])
            tc.mma(acc, o.a_transposed and a_smem[s]:T() or a_smem[s], o.b_transposed and b_smem[s]:T() or b_smem[s],
              { barrier = consumed[s], accumulate = k:gt(0), collective_axis = "cta" })
          end)
          tc.commit_arrive(done, { collective_axis = "cta" })
        end)
      end)
      tc.role{ name = "store", warpgroups = o.warpgroups or 1 }(function()
        tc.barrier_wait(done)
        local mine = out:tile({ m * 2 + cta, n }, { TM, TN })
        local width = TM == 64 and TN or math.min(64, TN)
        for c = 0, TN - 1, width do
          local columns = tc.ds(c, math.min(width, TN - c))
          mine:at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
        end
      end)
    end,
  }
end

return collective
