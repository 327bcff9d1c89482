-- What is wrong on every path is refused, next to kernels of verify_sound_spec that are right.
local tc = require "tcmma"
local helper = require "helper"
local shared = require "verify_kernels"

local TILES, ROWS, COLUMNS = shared.TILES, shared.ROWS, shared.COLUMNS
local tile, store, roles = shared.tile, shared.store, shared.roles
local pair, multicast, with = shared.pair, shared.multicast, shared.with

describe("What is wrong on every path is refused:", function()
   local args = { args = { tc.gmem({ TILES * ROWS, COLUMNS }, "f16"), tc.gmem({ TILES * ROWS, COLUMNS }, "f16") } }
   local both = with(args, pair)
   local release = "This multicast copy writes a slot in every CTA along \"c\", but its role learns from its own CTA "
      .. "alone that the slot is free."
   local function unreleased(slots, loop)
      return function(x, y)
         local c, s = tc.axis_index "c", tc.smem({ slots, ROWS, COLUMNS }, "f16")
         local full = tc.barrier { num_barriers = slots }
         loop(function(k)
            tc.copy_gmem_to_smem(tile(x, k), s[k % slots], full[k % slots], multicast)
            tc.barrier_wait(full[k % slots])
            store(y, s[k % slots], k, c)
         end)
      end
   end
   helper.build_refuses("a second turn on a slot", release, both, unreleased(1, function(fn) tc.range(2, fn) end))
   helper.build_refuses("a second copy to a slot", release, both,
      unreleased(1, function(fn) for k = 0, 1 do fn(k) end end))
   helper.build_refuses("a second turn of the loop around", release, both,
      unreleased(1, function(fn) tc.range(2, function() tc.range(1, fn) end) end))
   helper.build_refuses("a third turn on two slots, of which neither is waited for", release, both, function(x)
      local load, use = roles()
      local s, full = tc.smem({ 2, ROWS, COLUMNS }, "f16"), tc.barrier { num_barriers = 2 }
      local free = tc.barrier { num_barriers = 2 }
      load(function()
         tc.range(3, function(k)
            tc.when(k:ge(2), function() tc.barrier_wait(free[k % 2]) end)
            tc.copy_gmem_to_smem(tile(x, k), s[k % 2], full[k % 2], multicast)
         end)
      end)
      use(function()
         tc.range(3, function(k)
            tc.barrier_wait(full[k % 2])
            tc.barrier_arrive(free[k % 2])
         end)
      end)
   end)
   helper.build_refuses("a slot that is released in one of two CTAs", release, both, function(x)
      local c, load, use = tc.axis_index "c", roles()
      local s, full, free = tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}, tc.barrier {}
      local all = tc.cluster_barrier { collective_axes = "c" }
      load(function()
         tc.range(4, function(k)
            tc.when(k:ge(1), function() tc.barrier_wait(free) end)
            tc.copy_gmem_to_smem(tile(x, k), s, full, multicast)
         end)
      end)
      use(function()
         tc.range(4, function()
            tc.barrier_wait(full)
            tc.barrier_arrive(all)
            tc.when(c:eq(0), function() tc.barrier_wait(all) end)
            tc.barrier_arrive(free)
         end)
      end)
   end)
   local some = "Every CTA along \"c\" has to make this copy, but whether or how often it is made depends on the index "
      .. "along it."
   for name, make in pairs {
      ["a branch that one CTA takes"] = function(c, fn) tc.when((c % 2):eq(1), fn) end,
      ["turns of which one CTA has none"] = function(c, fn) tc.range(c, fn) end,
      ["two branches, of which one makes it in vain"] = function(c, fn)
         tc.when(c:eq(1), fn, function() tc.when(c:eq(1), fn) end)
      end,
   } do
      helper.build_refuses(name, some, both, function(x)
         local c, s, full = tc.axis_index "c", tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}
         make(c, function()
            tc.copy_gmem_to_smem(tile(x, 0), s, full, multicast)
            tc.barrier_wait(full)
         end)
      end)
   end
   local here = function() return debug.getinfo(2, "l").currentline end
   local line
   line = here() + 2
   helper.build_refuses("a wait in a turn that comes", ("This wait never ends: nothing arrives on the barrier made at "
      .. "line %d."):format(line + 1), args, function()
      local b = tc.barrier {}
      tc.range(4, function(k) tc.when(k:ge(2), function() tc.barrier_wait(b) end) end)
   end)
   line = here() + 2
   helper.build_refuses("a wait of the first phase by its parity", ("This wait never ends: nothing arrives on the "
      .. "barrier made at line %d."):format(line + 1), args, function()
      tc.barrier_wait(tc.barrier {}, { parity = 0 })
   end)
   it("a ring of unknown length that waits before the first use of a slot", function()
      local message = helper.message(function()
         tc.kernel { name = "kernel", target = "sm_100a", args = { tc.gmem({ "M", COLUMNS }, "f16") },
            body = function(x)
               local load, use = roles()
               local s = tc.smem({ 2, ROWS, COLUMNS }, "f16")
               local full, free = tc.barrier { num_barriers = 2 }, tc.barrier { num_barriers = 2, name = "free" }
               local steps = tc.cdiv(x.shape[1], ROWS)
               load(function()
                  tc.range(steps, function(k)
                     tc.barrier_wait(free[k % 2])
                     tc.copy_gmem_to_smem(tile(x, k), s[k % 2], full[k % 2])
                  end)
               end)
               use(function()
                  tc.range(steps, function(k)
                     tc.barrier_wait(full[k % 2])
                     tc.barrier_arrive(free[k % 2])
                  end)
               end)
            end }:ptx()
      end)
      assert.matches('^This wait never ends: the arrivals that barrier "free"', helper.first_line(message))
   end)
end)
