-- Kernels of spec/pallas_race_spec.lua: each is right, or lacks the one call that `without` names.
local tc = require "tcmma"

local races = {}

-- out = a b, from GMEM to GMEM.  without: "load", "mma", "commit_smem", "store".
function races.matmul(without)
  return tc.kernel{ name = "matmul", target = "sm_100a",
    args = { tc.gmem({ 128, 64 }, tc.f16), tc.gmem({ 64, 64 }, tc.f16), tc.gmem({ 128, 64 }, tc.f32) },
    body = function(a, b, out)
      local sa, sb, so = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 64 }, tc.f16), tc.smem({ 128, 64 }, tc.f32)
      local acc = tc.tmem({ 128, 64 }, tc.f32)
      local loaded_a, loaded_b, done = tc.barrier(), tc.barrier(), tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(a, sa, loaded_a)
      tc.copy_gmem_to_smem(b, sb, loaded_b)
      tc.barrier_wait(loaded_a)
      if without ~= "load" then tc.barrier_wait(loaded_b) end
      tc.mma(acc, sa, sb, { accumulate = false, barrier = done })
      if without ~= "mma" then tc.barrier_wait(done) end
      so:store(tc.async_load_tmem(acc))
      if without ~= "commit_smem" then tc.commit_smem() end
      tc.copy_smem_to_gmem(so, out)
      tc.wait_smem_to_gmem(0)
      if without == "load" then tc.barrier_wait(loaded_b) end
      if without == "mma" then tc.barrier_wait(done) end
    end }
end

-- Operands that the threads write: A through registers into SMEM, or into TMEM.
-- without: "commit_smem", "commit_tmem", "wait_load_tmem".
function races.written(place, without)
  return tc.kernel{ name = "written", target = "sm_100a",
    args = { tc.gmem({ 128, 64 }, tc.f16), tc.gmem({ 64, 64 }, tc.f16), tc.gmem({ 128, 64 }, tc.f32) },
    body = function(a, b, out)
      local sb, acc = tc.smem({ 64, 64 }, tc.f16), tc.tmem({ 128, 64 }, tc.f32)
      local operand = place == "smem" and tc.smem({ 128, 64 }, tc.f16)
        or tc.tmem({ 128, 64 }, tc.f16, { packed = true })
      local loaded, done = tc.barrier(), tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(b, sb, loaded)
      if place == "smem" then
        operand:store(a:load())
        if without ~= "commit_smem" then tc.commit_smem() end
      else
        tc.async_store_tmem(operand, a:load())
        if without ~= "commit_tmem" then tc.commit_tmem() end
      end
      tc.barrier_wait(loaded)
      tc.mma(acc, operand, sb, { accumulate = false, barrier = done })
      tc.barrier_wait(done)
      local first = tc.async_load_tmem(acc)
      if without ~= "wait_load_tmem" then tc.wait_load_tmem() end
      -- The second product replaces what the registers are still loaded from.
      tc.mma(acc, operand, sb, { accumulate = false, barrier = done })
      tc.barrier_wait(done)
      out:store(first + tc.async_load_tmem(acc))
    end }
end

-- Two products through one slot.  without: "consumed" (the copy does not wait until the first product has read it).
function races.slot(without)
  return tc.kernel{ name = "slot", target = "sm_100a",
    args = { tc.gmem({ 128, 128 }, tc.f16), tc.gmem({ 128, 64 }, tc.f16), tc.gmem({ 128, 64 }, tc.f32) },
    body = function(a, b, out)
      local sa, sb, acc = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 2, 64, 64 }, tc.f16), tc.tmem({ 128, 64 }, tc.f32)
      local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
      for step = 0, 1 do
        tc.copy_gmem_to_smem(a:tile({ 0, step }, { 128, 64 }), sa, loaded)
        tc.copy_gmem_to_smem(b:tile({ step, 0 }, { 64, 64 }), sb[step], loaded)
        tc.barrier_wait(loaded)
        tc.mma(acc, sa, sb[step],
          { accumulate = step > 0, barrier = (step == 1 or without ~= "consumed") and done or nil })
        if step == 1 or without ~= "consumed" then tc.barrier_wait(done) end
      end
      out:store(tc.async_load_tmem(acc))
    end }
end

-- Tiles on their way out.  without: "wait_smem_to_gmem" before the slot is written again, "commit_smem".
function races.stores(without)
  return tc.kernel{ name = "stores", target = "sm_100a",
    args = { tc.gmem({ 128, 64 }, tc.f32), tc.gmem({ 256, 64 }, tc.f32) },
    body = function(a, out)
      local slot = tc.smem({ 128, 64 }, tc.f32)
      for step = 0, 1 do
        slot:store(a:load() + step)
        if without ~= "commit_smem" then tc.commit_smem() end
        tc.copy_smem_to_gmem(slot, out:tile({ step, 0 }, { 128, 64 }))
        if step == 1 or without ~= "wait_smem_to_gmem" then tc.wait_smem_to_gmem(0) end
      end
    end }
end

-- A tile from one warpgroup to another, in SMEM or TMEM.  without: "arrive" (the reader does not wait), "release" (the
-- writer's second tile does not wait until the first is read).
function races.roles(place, without)
  return tc.kernel{ name = "roles", target = "sm_100a",
    args = { tc.gmem({ 128, 64 }, tc.f32), tc.gmem({ 256, 64 }, tc.f32) },
    body = function(a, out)
      local options = place == "tmem" and { orders_tensor_core = true } or {}
      local slot = place == "tmem" and tc.tmem({ 128, 64 }, tc.f32) or tc.smem({ 128, 64 }, tc.f32)
      local full, empty = tc.barrier(options), tc.barrier(options)
      tc.role{ name = "writer", warpgroups = 1 }(function()
        for step = 0, 1 do
          if step == 1 and without ~= "release" then tc.barrier_wait(empty) end
          if place == "tmem" then
            tc.async_store_tmem(slot, a:load() + step)
            tc.commit_tmem()
          else
            slot:store(a:load() + step)
          end
          tc.barrier_arrive(full)
        end
        if without == "release" then tc.barrier_wait(empty) end
      end)
      tc.role{ name = "reader", warpgroups = 1 }(function()
        for step = 0, 1 do
          if without ~= "arrive" then tc.barrier_wait(full) end
          out:tile({ step, 0 }, { 128, 64 }):store(place == "tmem" and tc.async_load_tmem(slot) or slot:load())
          if without == "arrive" then tc.barrier_wait(full) end
          if place == "tmem" then tc.wait_load_tmem() end
          if step == 0 then tc.barrier_arrive(empty) end
        end
      end)
    end }
end

-- A ring of two slots from a warp of copies to a warp of MMAs, two tiles of the accumulator to a warpgroup that stores
-- them.  without: "loaded", "consumed", "mma_done", "store_done".
function races.pipelined(without)
  local K_STEPS, TILES = 4, 2
  return tc.kernel{ name = "pipelined", target = "sm_100a",
    args = { tc.gmem({ TILES * 128, K_STEPS * 64 }, tc.f16), tc.gmem({ K_STEPS * 64, 64 }, tc.f16),
      tc.gmem({ TILES * 128, 64 }, tc.f32) },
    body = function(a, b, out)
      local sa, sb = tc.smem({ 2, 128, 64 }, tc.f16), tc.smem({ 2, 64, 64 }, tc.f16)
      local acc = tc.tmem({ 128, 64 }, tc.f32)
      local loaded = tc.barrier{ num_barriers = 2, num_arrivals = 2 }
      local consumed = tc.barrier{ num_barriers = 2, orders_tensor_core = true }
      local mma_done = tc.barrier{ orders_tensor_core = true }
      local store_done = tc.barrier{ orders_tensor_core = true }
      local steps = K_STEPS * TILES
      tc.role{ name = "copies", warps = 1 }(function()
        for step = 0, steps - 1 do
          local s, tile, k = step % 2, step // K_STEPS, step % K_STEPS
          if step >= 2 and without ~= "consumed" then tc.barrier_wait(consumed[s]) end
          tc.copy_gmem_to_smem(a:tile({ tile, k }, { 128, 64 }), sa[s], loaded[s])
          tc.copy_gmem_to_smem(b:tile({ k, 0 }, { 64, 64 }), sb[s], loaded[s])
        end
        for step = without == "consumed" and 0 or steps - 2, steps - 1 do tc.barrier_wait(consumed[step % 2]) end
      end)
      tc.role{ name = "mmas", warps = 1 }(function()
        for step = 0, steps - 1 do
          local s, k = step % 2, step % K_STEPS
          if step == K_STEPS and without ~= "store_done" then tc.barrier_wait(store_done) end
          if without ~= "loaded" then tc.barrier_wait(loaded[s]) end
          tc.mma(acc, sa[s], sb[s], { accumulate = k > 0, barrier = consumed[s] })
          if without == "loaded" then tc.barrier_wait(loaded[s]) end
          if k == K_STEPS - 1 then tc.commit_arrive(mma_done) end
        end
        if without == "store_done" then tc.barrier_wait(store_done) end
        tc.barrier_wait(store_done)
      end)
      tc.role{ name = "stores", warpgroups = 1 }(function()
        for tile = 0, TILES - 1 do
          if without ~= "mma_done" then tc.barrier_wait(mma_done) end
          out:tile({ tile, 0 }, { 128, 64 }):store(tc.async_load_tmem(acc))
          tc.wait_load_tmem()
          if without == "mma_done" then tc.barrier_wait(mma_done) end
          tc.barrier_arrive(store_done)
        end
      end)
    end }
end

-- What needs no order: an MMA into one half of tensor memory while registers are loaded from the other; a tile that two
-- warpgroups read at once; two MMAs on one accumulator; a tile of each of two warpgroups.
function races.unordered(what)
  return tc.kernel{ name = "unordered", target = "sm_100a",
    args = { tc.gmem({ 128, 64 }, tc.f16), tc.gmem({ 64, 64 }, tc.f16), tc.gmem({ 256, 64 }, tc.f32) },
    body = function(a, b, out)
      local sa, sb = tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 64 }, tc.f16)
      local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
      local halves = tc.tmem({ 2, 128, 64 }, tc.f32)
      local function tile(at) return out:tile({ at, 0 }, { 128, 64 }) end
      if what == "readers" or what == "halves" then
        for at = 0, 1 do
          tc.role{ name = "role" .. at, warpgroups = 1 }(function()
            if at == 0 then
              tc.copy_gmem_to_smem(a, sa, loaded)
              tc.copy_gmem_to_smem(b, sb, loaded)
            end
            tc.barrier_wait(loaded)
            if what == "readers" then
              tile(at):store(sa:load():astype(tc.f32))
            else
              tc.async_store_tmem(halves[at], sa:load():astype(tc.f32))
              tc.commit_tmem()
              tile(at):store(tc.async_load_tmem(halves[at]))
            end
          end)
        end
        return
      end
      tc.copy_gmem_to_smem(a, sa, loaded)
      tc.copy_gmem_to_smem(b, sb, loaded)
      tc.barrier_wait(loaded)
      tc.mma(halves[0], sa, sb, { accumulate = false, barrier = what == "overlap" and done or nil })
      if what == "overlap" then
        tc.barrier_wait(done)
        tc.mma(halves[1], sa, sb, { accumulate = false, barrier = done })
      else
        tc.mma(halves[0], sa, sb, { accumulate = true, barrier = done })
        tc.barrier_wait(done)
      end
      tile(0):store(tc.async_load_tmem(halves[0]))
      if what == "overlap" then tc.barrier_wait(done) end
      if what == "overlap" then tile(1):store(tc.async_load_tmem(halves[1])) end
    end }
end

-- Two CTAs on one semaphore's tile of GMEM.  without: "wait".
function races.semaphore(without)
  return tc.kernel{ name = "semaphore", target = "sm_100a", grid = { 2 }, grid_names = { "cta" },
    args = { tc.gmem({ 128, 64 }, tc.f32), tc.gmem({ 128, 64 }, tc.f32), tc.gmem({ 1 }, tc.i32) },
    body = function(a, out, count)
      local cta = tc.axis_index "cta"
      tc.when(cta:eq(0), function()
        a:store(a:load() + 1)
        tc.semaphore_signal(count[0], 1)
      end)
      tc.when(cta:eq(1), function()
        if without ~= "wait" then tc.semaphore_wait(count[0], 1) end
        out:store(a:load())
      end)
    end }
end

return races
