local tc = require "tcmma"
local refuses = require("helper").refuses

describe("Barriers refuse", function()
   refuses("no arrivals", "Num arrivals must be at least 1, but got 0", function()
      return function() tc.barrier { num_arrivals = 0 } end, function() tc.barrier { num_arrivals = 1 } end
   end)
   refuses("no arrivals, in a cluster", "Num arrivals must be at least 1, but got -1", function()
      return function() tc.cluster_barrier { collective_axes = "x", num_arrivals = -1 } end,
         function() tc.cluster_barrier { collective_axes = "x" } end
   end, { cluster = { 2 }, cluster_names = { "x" } })
   refuses("more than 32 a group", "Only up to 32 barriers per group supported", function()
      return function() tc.barrier { num_barriers = 33 } end, function() tc.barrier { num_barriers = 32 } end
   end)
   refuses("an empty group", "num_barriers must be at least 1, but got 0", function()
      return function() tc.barrier { num_barriers = 0 } end
   end)
   refuses("counts beyond the hardware's",
      "num_arrivals times the warps that arrive must be below 2^20, but num_arrivals is 100000", function()
         return function() tc.barrier { num_arrivals = 100000 } end
      end)
   refuses("an index outside", "Barrier offset 4 is out of bounds", function()
      local b = tc.barrier { num_barriers = 4 }
      return function() return b[4] end, function() return b[3] end
   end)
   refuses("a negative index", "Barrier offset -1 is out of bounds", function()
      local b = tc.barrier { num_barriers = 4 }
      return function() return b[-1] end
   end)
   refuses("a fractional index", "Expected a dynamic index or an integer, got number 0.5", function()
      local b = tc.barrier { num_barriers = 4 }
      return function() return b[0.5] end
   end)
   refuses("a whole group where one is meant",
      "Operation is only valid for a single barrier, but barrier ref contains 4. Individual barriers can be "
         .. "accessed by indexing into the ref.", function()
         local b = tc.barrier { num_barriers = 4 }
         return function() tc.barrier_arrive(b) end, function() tc.barrier_arrive(b[0]) end
      end)
   refuses("a wait for a whole group",
      "Operation is only valid for a single barrier, but barrier ref contains 2. Individual barriers can be "
         .. "accessed by indexing into the ref.", function()
         local b = tc.barrier { num_barriers = 2 }
         return function() tc.barrier_wait(b) end, function() tc.barrier_wait(b[1]) end
      end)
   refuses("a commit to a whole group",
      "Operation is only valid for a single barrier, but barrier ref contains 2. Individual barriers can be "
         .. "accessed by indexing into the ref.", function()
         local b = tc.barrier { num_barriers = 2, orders_tensor_core = true }
         return function() tc.commit_arrive(b) end, function() tc.commit_arrive(b[1]) end
      end)
   refuses("assignment", "Barriers are not arrays", function()
      local b = tc.barrier { num_barriers = 2 }
      return function() b[0] = 1 end
   end)
   refuses("assignment, in a cluster", "Cluster barriers are not arrays", function()
      local b = tc.cluster_barrier { num_barriers = 2, collective_axes = "x" }
      return function() b[0] = 1 end
   end, { cluster = { 2 }, cluster_names = { "x" } })
   refuses("a wait for nothing", "barrier must be a SMEM reference, got nil", function()
      return function() tc.barrier_wait(nil) end
   end)
   refuses("an arrival on a number", "barrier must be a SMEM reference, got integer 5", function()
      return function() tc.barrier_arrive(5) end
   end)
end)
