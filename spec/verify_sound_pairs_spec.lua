-- Kernels of pairs of CTAs, and roles that pass on what they have heard, whose synchronisation is right although it
-- looks like what is refused: they run without a hazard, with products in double precision.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"
local shared = require "verify_kernels"

local pair, with = shared.pair, shared.with

-- Products of pairs of CTAs, out = a * b, of (256, 64 * steps) and (64 * steps, 128).
describe("Kernels of pairs that are right:", function()
   local blackwell = { "sm_100a" }
   local function product(title, steps, body)
      it(title, function()
         local kernel = tc.kernel(with({
            name = "pairs", target = "sm_100a",
            args = { tc.gmem({ 256, 64 * steps }, "f16"), tc.gmem({ 64 * steps, 128 }, "f16"),
               tc.gmem({ 256, 128 }, "f32") },
            body = body,
         }, pair))
         local a, b = kernels.integers({ 256, 64 * steps }, tc.f16, 1), kernels.integers({ 64 * steps, 128 }, tc.f16, 2)
         local expected = tc.reference.matmul(a, b)
         modes.run(kernel, function() return a, b, tc.zeros({ 256, 128 }, "f32") end,
            function(_, _, out) assert.are.equal(0, (tc.max_error(out, expected))) end, blackwell)
      end)
   end
   local function tracked(axis)
      return { collective_axes = "c", leader_tracked = "partitioned", partition_axis = axis }
   end
   local function memory(slots)
      return tc.smem({ slots, 128, 64 }, "f16"), tc.smem({ slots, 64, 64 }, "f16"),
         tc.tmem({ 128, 128 }, "f32", { collective = true }), tc.barrier { orders_tensor_core = true }
   end
   local function three()
      return tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 },
         tc.role { name = "store", warpgroups = 1 }
   end

   local guards = {
      ["a var"] = function(c, fn)
         local v = tc.var(c)
         tc.when(v:get():eq(0), fn)
      end,
      ["a var of a comparison"] = function(c, fn)
         local v = tc.var(c:eq(0))
         tc.when(v:get(), fn)
      end,
      ["a loop that it stops"] = function(c, fn)
         local v = tc.var(c)
         tc.loop(function()
            tc.stop(v:get():ge(1))
            fn()
            v:set(1)
         end)
      end,
      ["a range of a var"] = function(c, fn)
         local v = tc.var(1 - c)
         tc.range(v:get(), fn)
      end,
      ["a range"] = function(c, fn) tc.range(1 - c, fn) end,
      ["the other branch"] = function(c, fn) tc.when(c:eq(1), function() end, fn) end,
   }
   for name, guard in pairs(guards) do
      product("the leader waits below " .. name, 2, function(a, b, out)
         local c, load, mma, ep = tc.axis_index "c", three()
         local sa, sb, acc, done = memory(2)
         local full = tc.barrier { num_arrivals = 2, num_barriers = 2 }
         load(function()
            tc.range(2, function(k)
               tc.copy_gmem_to_smem(a:tile({ 0, k }, { 256, 64 }), sa[k], full[k], tracked(0))
               tc.copy_gmem_to_smem(b:tile({ k, 0 }, { 64, 128 }), sb[k], full[k], tracked(1))
            end)
         end)
         mma(function()
            guard(c, function()
               tc.range(2, function(k)
                  tc.barrier_wait(full[k])
                  tc.mma(acc, sa[k], sb[k], { accumulate = k:gt(0), collective_axis = "c" })
               end)
               tc.commit_arrive(done, { collective_axis = "c" })
            end)
         end)
         ep(function()
            tc.barrier_wait(done)
            out:tile({ c, 0 }, { 128, 128 }):store(tc.async_load_tmem(acc))
         end)
      end)
   end
   product("each CTA has copied its operand before it makes a copy that both make", 1, function(a, b, out)
      local c, load, mma, ep = tc.axis_index "c", three()
      local sa, sb, acc, done = memory(1)
      local own, full = tc.barrier {}, tc.barrier {}
      load(function()
         tc.copy_gmem_to_smem(a:tile({ c, 0 }, { 128, 64 }), sa[0], own)
         tc.barrier_wait(own)
         tc.copy_gmem_to_smem(b:tile({ 0, 0 }, { 64, 128 }), sb[0], full, tracked(1))
      end)
      mma(function()
         tc.when(c:eq(0), function()
            tc.barrier_wait(own)
            tc.barrier_wait(full)
            tc.mma(acc, sa[0], sb[0], { accumulate = false, collective_axis = "c" })
            tc.commit_arrive(done, { collective_axis = "c" })
         end)
      end)
      ep(function()
         tc.barrier_wait(done)
         out:tile({ c, 0 }, { 128, 128 }):store(tc.async_load_tmem(acc))
      end)
   end)
   for _, when in ipairs { "before", "behind" } do
      product("one barrier for a copy of each CTA " .. when .. " what the leader tracks", 1, function(a, b, out)
         local c, load, mma, ep = tc.axis_index "c", three()
         local sa, sb, acc, done = memory(1)
         local scratch, full, both = tc.smem({ 64, 64 }, "f16"), tc.barrier {}, tc.barrier {}
         local function own()
            tc.copy_gmem_to_smem(b:tile({ 0, 0 }, { 64, 64 }), scratch, full)
            tc.barrier_wait(full)
         end
         if when == "before" then load(own) else load(function() tc.when(c:eq(0), own) end) end
         local heard, ready = tc.barrier {}, tc.cluster_barrier { collective_axes = "c" }
         load(function()
            tc.when(c:eq(0), function() tc.barrier_wait(heard) end)
            tc.barrier_arrive(ready)
            tc.barrier_wait(ready)
            tc.copy_gmem_to_smem(a, sa[0], both, tracked(0))
            tc.copy_gmem_to_smem(b, sb[0], full, tracked(1))
         end)
         mma(function()
            tc.when(c:eq(0), function()
               tc.barrier_wait(full)
               tc.barrier_arrive(heard)
               tc.barrier_wait(both)
               tc.barrier_wait(full)
               tc.mma(acc, sa[0], sb[0], { accumulate = false, collective_axis = "c" })
               tc.commit_arrive(done, { collective_axis = "c" })
            end)
         end)
         ep(function()
            tc.barrier_wait(done)
            out:tile({ c, 0 }, { 128, 128 }):store(tc.async_load_tmem(acc))
         end)
      end)
   end
   product("an operand's memory is filled for other uses when the MMA is done", 1, function(a, b, out)
      local c, load, mma, ep = tc.axis_index "c", three()
      local sa, sb, acc, done = memory(1)
      local full, own = tc.barrier { num_arrivals = 2 }, tc.barrier {}
      load(function()
         tc.copy_gmem_to_smem(a, sa[0], full, tracked(0))
         tc.copy_gmem_to_smem(b, sb[0], full, tracked(1))
         tc.barrier_wait(done)
         tc.copy_gmem_to_smem(b:tile({ 0, 0 }, { 64, 64 }), sb[0], own)
         tc.barrier_wait(own)
      end)
      mma(function()
         tc.when(c:eq(0), function()
            tc.barrier_wait(full)
            tc.mma(acc, sa[0], sb[0], { accumulate = false, collective_axis = "c" })
            tc.commit_arrive(done, { collective_axis = "c" })
         end)
      end)
      ep(function()
         tc.barrier_wait(done)
         out:tile({ c, 0 }, { 128, 128 }):store(tc.async_load_tmem(acc))
      end)
   end)
   product("an accumulator of its own for each turn", 2, function(a, b, out)
      local c, load, mma, ep = tc.axis_index "c", three()
      local sa, sb = memory(2)
      local acc = tc.tmem({ 128, 256 }, "f32", { collective = true })
      local full = tc.barrier { num_arrivals = 2, num_barriers = 2 }
      local done = tc.barrier { num_barriers = 2, orders_tensor_core = true }
      local sum = tc.smem({ 128, 128 }, "f32")
      tc.range(2, function(k)
         load(function()
            tc.copy_gmem_to_smem(a:tile({ 0, k }, { 256, 64 }), sa[k], full[k], tracked(0))
            tc.copy_gmem_to_smem(b:tile({ k, 0 }, { 64, 128 }), sb[k], full[k], tracked(1))
         end)
         mma(function()
            tc.when(c:eq(0), function()
               tc.barrier_wait(full[k])
               tc.mma(acc:at(tc.all, tc.ds(k * 128, 128)), sa[k], sb[k],
                  { accumulate = false, collective_axis = "c", barrier = done[k] })
            end)
         end)
         ep(function()
            tc.barrier_wait(done[k])
            local part = tc.async_load_tmem(acc:at(tc.all, tc.ds(k * 128, 128)))
            tc.when(k:eq(0), function() sum:store(part) end,
               function() out:tile({ c, 0 }, { 128, 128 }):store(sum:load() + part) end)
         end)
      end)
   end)
end)

describe("A role that passes on what it has waited for", function()
   for _, how in ipairs { "an arrival", "a semaphore", "a copy" } do
      it(("by %s orders the MMA before its readers"):format(how), function()
         local kernel = tc.kernel {
            name = "relay",
            args = { tc.gmem({ 128, 64 }, "f16"), tc.gmem({ 64, 64 }, "f16"), tc.gmem({ 128, 64 }, "f32"),
               tc.gmem({ 1 }, "i32") },
            body = function(a, b, out, flag)
               local sa, sb, acc = tc.smem({ 128, 64 }, "f16"), tc.smem({ 64, 64 }, "f16"), tc.tmem({ 128, 64 }, "f32")
               local full, done = tc.barrier { num_arrivals = 2 }, tc.barrier { orders_tensor_core = true }
               local told = tc.barrier { orders_tensor_core = how ~= "a copy" }
               local issue, relay = tc.role { name = "issue", warps = 1 }, tc.role { name = "relay", warps = 1 }
               local read = tc.role { name = "read", warpgroups = 1 }
               issue(function()
                  tc.copy_gmem_to_smem(a, sa, full)
                  tc.copy_gmem_to_smem(b, sb, full)
                  tc.barrier_wait(full)
                  tc.mma(acc, sa, sb, { barrier = done, accumulate = false })
               end)
               relay(function()
                  tc.barrier_wait(done)
                  if how == "a semaphore" then
                     tc.semaphore_signal(flag[0])
                     tc.semaphore_wait(flag[0])
                  end
                  if how == "a copy" then
                     tc.copy_gmem_to_smem(b, sb, told)
                  else
                     tc.barrier_arrive(told)
                  end
               end)
               read(function()
                  tc.barrier_wait(told)
                  out:store(tc.async_load_tmem(acc))
               end)
            end,
         }
         local a, b = kernels.integers({ 128, 64 }, tc.f16, 1), kernels.integers({ 64, 64 }, tc.f16, 2)
         local expected = tc.reference.matmul(a, b)
         for _, target in ipairs(modes.targets) do
            local out = tc.zeros({ 128, 64 }, "f32")
            local report = kernel:emulate({ mode = "check", target = target }, a, b, out, tc.zeros({ 1 }, "i32"))
            for _, hazard in ipairs(report.hazards) do
               -- A copy is no arrival of threads: it has no fence to order tensor memory by.
               assert.are.equal(how == "a copy" and "tcgen05-fence-before", hazard.rule, hazard.message)
            end
            assert.are.equal(0, (tc.max_error(out, expected)))
            modes.assembles(kernel, target)
         end
      end)
   end
end)
