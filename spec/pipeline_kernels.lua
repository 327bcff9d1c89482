-- Kernels made of pipelines: of spec/pipeline_spec.lua, and on a GPU.
local tc = require "tcmma"

local pipelines = {}

-- out = 2 a + bias by blocks; the bias (1, N) changes with n, or not at all where there is one column of blocks.
function pipelines.scaled(o)
  local rows, columns, tm, tn = o.rows, o.columns, o.tm or 64, o.tn or 64
  local emit = o.specialized and tc.emit_pipeline_warp_specialized or tc.emit_pipeline
  return tc.kernel{
    name = "scaled",
    args = { tc.gmem({ rows, columns }, tc.float32), tc.gmem({ 1, columns }, tc.float32),
      tc.gmem({ rows, columns }, tc.float32) },
    body = function(a, bias, out)
      local function step(_, x, y, z)
        local row = y:at(0):load()
        z:store(x:load() * 2 + row:broadcast({ tm, tn }, 0))
      end
      local run = emit(step, {
        grid = { rows // tm, columns // tn }, max_concurrent_steps = o.steps,
        in_specs = {
          tc.block_spec({ tm, tn }, function(m, n) return m, n end, { delay_release = o.delay }),
          tc.block_spec({ 1, tn }, function(_, n) return 0, n end, { swizzle = "none",
            delay_release = o.delay_bias or o.delay }),
        },
        out_specs = { tc.block_spec({ tm, tn }, function(m, n) return m, n end) },
      })
      for _ = 1, o.runs or 1 do run(a, bias, out) end
    end,
  }
end

-- A matmul whose MMAs give the tiles back themselves; the tiles of the result are steps of the grid too.
function pipelines.matmul(o)
  local TM, TN, TK = 128, 64, 64
  local dtype = tc.bfloat16
  local cluster = o.cluster
  local m_tiles, n_tiles, k_tiles = o.m // TM, o.n // TN, o.k // TK
  return tc.kernel{
    name = "matmul",
    args = { tc.gmem({ o.m, o.k }, dtype), tc.gmem({ o.k, o.n }, dtype), tc.gmem({ o.m, o.n }, tc.float32) },
    cluster = cluster and { cluster } or nil, cluster_names = cluster and { "cta" } or nil,
    body = function(a, b, out)
      local acc = tc.tmem({ TM, TN }, tc.float32)
      local done = tc.barrier{ name = "done", orders_tensor_core = true }
      local out_smem = tc.smem({ TM, 32 }, tc.float32)
      local rank = cluster and tc.axis_index "cta" or 0
      local rows = cluster and m_tiles // cluster or m_tiles
      local function row(m) return cluster and m * cluster + rank or m end
      local run = tc.emit_pipeline_warp_specialized(function(info, x, y)
        local m, n, k = table.unpack(info.index)
        tc.mma(acc, x, y, { barrier = info.consumed, accumulate = k:gt(0) })
        tc.when(k:eq(k_tiles - 1), function()
          tc.commit_arrive(done)
          tc.barrier_wait(done)
          for piece = 0, TN // 32 - 1 do
            tc.wait_smem_to_gmem(0, { wait_read_only = true })
            out_smem:store(tc.async_load_tmem(acc:at(tc.all, tc.ds(32 * piece, 32))))
            tc.commit_smem()
            tc.copy_smem_to_gmem(out_smem, out:tile({ row(m), n * (TN // 32) + piece }, { TM, 32 }))
          end
          tc.wait_load_tmem()
        end)
      end, {
        grid = { rows, n_tiles, k_tiles }, max_concurrent_steps = o.steps or 3, manual_consumed_barriers = true,
        in_specs = {
          tc.block_spec({ TM, TK }, function(m, _, k) return row(m), k end),
          tc.block_spec({ TK, TN }, function(_, n, k) return k, n end,
            cluster and { collective_axes = "cta" } or nil),
        },
      })
      run(a, b)
    end,
  }
end

-- A pipeline over K in a loop over tiles that all roles have: o.walk "dynamic" or "nd"; o.overlaps: the loads of a tile
-- run under the end of the one before; o.cluster: CTAs that share b.
function pipelines.tiles(o)
  local m_tiles, n_tiles, k_tiles = o.m // 128 // (o.cluster or 1), o.n // 64, o.k // 64
  local tiles = m_tiles * n_tiles
  local dtype = tc.bfloat16
  return tc.kernel{
    name = "tiles",
    args = { tc.gmem({ o.m, o.k }, dtype), tc.gmem({ o.k, o.n }, dtype), tc.gmem({ o.m, o.n }, tc.float32) },
    grid = { o.walk == "nd" and (o.workers or 3) or tiles }, grid_names = { "worker" },
    cluster = o.cluster and { o.cluster }, cluster_names = o.cluster and { "cta" },
    body = function(a, b, out)
      local acc, done = tc.tmem({ 128, 64 }, tc.float32), tc.barrier{ name = "done", orders_tensor_core = true }
      local memory = tc.role{ name = "memory", warps = 1 }
      local compute = tc.role{ name = "compute", warpgroups = 1 }
      local function tile(info)
        local m, n = tc.planar_snake(info.index[1], { m_tiles, n_tiles }, 0, 2)
        if o.cluster then m = m * o.cluster + tc.axis_index "cta" end
        tc.emit_pipeline_warp_specialized(function(step, x, y)
          tc.mma(acc, x, y, { barrier = step.consumed, accumulate = step.step:gt(0) })
        end, {
          grid = { k_tiles }, max_concurrent_steps = o.steps or 3, manual_consumed_barriers = true,
          memory = memory, compute = compute, turn = o.overlaps and info.local_index or nil,
          in_specs = { tc.block_spec({ 128, 64 }, function(k) return m, k end),
            tc.block_spec({ 64, 64 }, function(k) return k, n end, o.cluster and { collective_axes = "cta" }) },
          compute_context = function(run)
            run()
            tc.commit_arrive(done)
            tc.barrier_wait(done)
            out:tile({ m, n }, { 128, 64 }):store(tc.async_load_tmem(acc))
            tc.wait_load_tmem()
          end,
        })(a, b)
      end
      if o.walk == "nd" then
        tc.nd_loop({ tiles }, tile, { collective_axes = "worker" })
      else
        tc.dynamic_scheduling_loop("worker", tile)
      end
    end,
  }
end

-- A pipeline of pipelines, as Pallas' test has it: turn t of a loop streams band t of the rows, out = scale * a + bias.
-- The scale (1, N) is the same at all steps of a run, the bias another one in each turn.
-- o: rows, columns, turns, steps (of the ring), delay, computes (compute roles, which then store by themselves)
function pipelines.turns(o)
  local TM, TN = 32, 64
  local bands, columns = o.rows // TM // o.turns, o.columns // TN
  return tc.kernel{
    name = "turns",
    args = { tc.gmem({ o.rows, o.columns }, tc.float32), tc.gmem({ 1, TN }, tc.float32),
      tc.gmem({ o.turns, TN }, tc.float32), tc.gmem({ o.rows, o.columns }, tc.float32) },
    body = function(a, scale, bias, out)
      local roles = {}
      for i = 1, o.computes or 1 do roles[i] = tc.role{ name = "compute" .. i, warpgroups = 1 } end
      local memory = tc.role{ name = "memory", warps = 1 }
      local function row(ref) return ref:at(0):load():broadcast({ TM, TN }, 0) end
      tc.range(o.turns, function(turn)
        local function block(m, n) return turn * bands + m, n end
        local function step(info, x, factor, addend, y)
          local value = x:load() * row(factor) + row(addend)
          if y then return y:store(value) end
          -- Each of several roles stores its steps.
          tc.when((info.step % #roles):eq(info.compute), function()
            out:tile({ turn * bands + info.index[1], info.index[2] }, { TM, TN }):store(value)
          end)
        end
        local one = #roles == 1
        local run = tc.emit_pipeline_warp_specialized(step, {
          grid = { bands, columns }, max_concurrent_steps = o.steps, memory = memory, compute = roles,
          turn = o.miscounted and turn // 5 or not o.apart and turn or nil,
          in_specs = {
            tc.block_spec({ TM, TN }, block, { delay_release = o.delay }),
            tc.block_spec({ 1, TN }, function() return 0, 0 end, { swizzle = "none", delay_release = o.delay }),
            tc.block_spec({ 1, TN }, function() return turn, 0 end, { swizzle = "none", delay_release = o.delay }),
          },
          out_specs = one and { tc.block_spec({ TM, TN }, block) } or nil,
        })
        if one then run(a, scale, bias, out) else run(a, scale, bias) end
      end)
    end,
  }
end

-- Inside a step of a warp-specialised pipeline, a pipeline of the compute role: out = a + sum over the rows of b.
function pipelines.inner()
  return tc.kernel{
    name = "inner",
    args = { tc.gmem({ 128, 64 }, tc.float32), tc.gmem({ 96, 64 }, tc.float32), tc.gmem({ 128, 64 }, tc.float32) },
    body = function(a, b, out)
      tc.emit_pipeline_warp_specialized(function(_, x, y)
        local sum = tc.var(tc.full({ 64 }, 0, tc.float32))
        tc.emit_pipeline(function(_, rows) sum:set(sum:get() + rows:load():reduce("sum", 0)) end, {
          grid = { 3 }, max_concurrent_steps = 2, in_specs = { tc.block_spec({ 32, 64 }, function(i) return i, 0 end) },
        })(b)
        y:store(x:load() + sum:get():broadcast({ 32, 64 }, 0))
      end, {
        grid = { 4 }, in_specs = { tc.block_spec({ 32, 64 }, function(m) return m, 0 end) },
        out_specs = { tc.block_spec({ 32, 64 }, function(m) return m, 0 end) },
      })(a, out)
    end,
  }
end

return pipelines
