-- Pairs of CTAs: what is refused, at the call or when the kernel is complete, and its legal neighbour.
local tc = require "tcmma"
local helper = require "helper"
local refuses, build_refuses, builds = helper.refuses, helper.build_refuses, helper.builds

local pair = { cluster = { 2 }, cluster_names = { "x" }, args = { tc.gmem({ 512, 512 }, tc.f16) } }

local function on(target)
   local options = { target = target }
   for key, value in pairs(pair) do options[key] = value end
   return options
end

local function operands()
   return tc.tmem({ 128, 256 }, tc.f32, { collective = true }), tc.smem({ 128, 64 }, tc.f16), tc.smem({ 64, 128 },
     tc.f16)
end

describe("An arrival of the tensor core in both CTAs refuses", function()
   refuses("a cluster barrier, of an mma", "A tensor-core arrival with collective_axis arrives in both CTAs by itself: "
      .. "it takes a tc.barrier, not a tc.cluster_barrier.", function()
         local acc, a, b = operands()
         local wrong = tc.cluster_barrier { collective_axes = "x", orders_tensor_core = true }
         local right = tc.barrier { orders_tensor_core = true }
         return function() tc.mma(acc, a, b, { collective_axis = "x", barrier = wrong }) end,
            function() tc.mma(acc, a, b, { collective_axis = "x", barrier = right }) end
      end, pair)
   refuses("a cluster barrier, of a commit", "A tensor-core arrival with collective_axis arrives in both CTAs by "
      .. "itself: it takes a tc.barrier, not a tc.cluster_barrier.", function()
         local wrong = tc.cluster_barrier { collective_axes = "x", orders_tensor_core = true }
         local right = tc.barrier { orders_tensor_core = true }
         return function() tc.commit_arrive(wrong, { collective_axis = "x" }) end,
            function() tc.commit_arrive(right, { collective_axis = "x" }) end
      end, pair)
   refuses("the barrier of a peer", "Peer device references are not allowed in the lowering of this primitive.",
     function()
      local right = tc.barrier { orders_tensor_core = true }
      return function() tc.commit_arrive(tc.cluster_ref(right, 1), { collective_axis = "x" }) end,
         function() tc.commit_arrive(right, { collective_axis = "x" }) end
   end, pair)
end)

describe("An mma of two CTAs refuses", function()
   local function shaped(rows, columns, layout)
      return function()
         local acc = tc.tmem({ rows, columns }, tc.f32, { collective = true, layout = layout })
         local right = tc.tmem({ rows, columns }, tc.f32, { collective = true })
         local a, b = tc.smem({ rows, 64 }, tc.f16), tc.smem({ 64, columns // 2 }, tc.f16)
         return function() tc.mma(acc, a, b, { collective_axis = "x" }) end,
            function() tc.mma(right, a, b, { collective_axis = "x" }) end
      end
   end
   refuses("an accumulator in the layout of one CTA", "Accumulator layout mismatch: expected "
      .. "m64_collective(packing=1), got half_lane(packing=1)", shaped(64, 128, "half_lane"), pair)
   refuses("A of 64 rows in TMEM", "Only M=128 is supported for MMA with A in TMEM, but got M=64", function()
      local acc = tc.tmem({ 64, 128 }, tc.f32, { collective = true })
      local a = tc.tmem({ 64, 64 }, tc.f16, { packed = true, collective = true })
      local b, twice = tc.smem({ 64, 64 }, tc.f16), { layout = "m64_collective_a", collective = true }
      return function() tc.mma(acc, a, b, { collective_axis = "x" }) end,
         function() tc.mma(acc, tc.tmem({ 64, 64 }, tc.f16, twice), b, { collective_axis = "x" }) end
   end, pair)
end)

describe("A copy into TMEM refuses", function()
   local function copies(collective, wrong, right)
      return function()
         local from = tc.smem({ 128, 64 }, tc.f16)
         local to = tc.tmem({ 128, 64 }, tc.f16, { packed = true, collective = collective })
         return function() tc.async_copy_smem_to_tmem(from, to, wrong) end,
            function() tc.async_copy_smem_to_tmem(from, to, right) end
      end
   end
   refuses("to be of one CTA where its target is of two",
      "Collective attributes are inconsistent across operations in the kernel.",
      copies(true, nil, { collective_axis = "x" }), pair)
   refuses("to be of two CTAs where its target is of one", "dst Ref must be collective if collective_axis is set.",
      copies(false, { collective_axis = "x" }, nil), pair)
   refuses("axes other than the last", "Can only perform collective MMA along minormost cluster axis. Got y, "
     .. "expected x.",
      copies(true, { collective_axis = "y" }, { collective_axis = "x" }),
      { cluster = { 2, 2 }, cluster_names = { "y", "x" } })
end)

describe("A cluster barrier that the leader tracks refuses", function()
   local options = { cluster = { 2, 2 }, cluster_names = { "y", "x" } }
   refuses("several axes", "Only leader tracking for a single collective dimension is supported.", function()
      return function() tc.cluster_barrier { collective_axes = { "y", "x" }, leader_tracked = true } end,
         function() tc.cluster_barrier { collective_axes = "y", leader_tracked = true } end
   end, options)
   refuses("a group of axes", "Only leader tracking for ungrouped collective dimensions is supported.", function()
      return function() tc.cluster_barrier { collective_axes = { { "y", "x" } }, leader_tracked = true } end,
         function() tc.cluster_barrier { collective_axes = { { "x" } }, leader_tracked = true } end
   end, options)
end)

describe("partition_axis", function()
   refuses("is a dimension of dst", "partition_axis = 2 is no dimension of dst, which has 2.", function(x)
      local s, b = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}
      return function()
         tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 128, 64 }), s, b, { collective_axes = "x", partition_axis = 2 })
      end, function()
         tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 128, 128 }), s, b, { collective_axes = "x", partition_axis = 1 })
      end
   end, pair)
end)

-- A ring of operands that both CTAs load and the leader multiplies; change.NAME replaces a part.
local function ring(change)
   change = change or {}
   return function(x)
      local cta, acc = tc.axis_index "x", tc.tmem({ 128, 128 }, tc.f32, { collective = true })
      local a, b = tc.smem({ 2, 128, 64 }, tc.f16), tc.smem({ 2, 64, 64 }, tc.f16)
      local loaded = tc.barrier { num_arrivals = change.loaded or 2, num_barriers = 2, name = "loaded" }
      local consumed = tc.barrier { num_barriers = 2, orders_tensor_core = true, name = "consumed" }
      local done = tc.barrier { orders_tensor_core = true, name = "done" }
      local freed = tc.barrier { num_barriers = 2, name = "freed" }
      local read = change.read and change.read() or tc.cluster_barrier { collective_axes = "x",
         orders_tensor_core = true, leader_tracked = true, name = "read" }
      local load, issue = tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 }
      local store = tc.role { name = "store", warpgroups = 1 }
      local tiles = change.tiles or 1
      tc.range(tiles, function(t)
         load(function()
            tc.range(4, function(k)
               local s = k % 2
               tc.when((t * 4 + k):ge(2), function()
                  tc.barrier_wait((change.release and freed or consumed)[s])
               end)
               local function copy()
                  tc.copy_gmem_to_smem(x:tile({ 0, k }, { 256, 64 }), a[s], loaded[s],
                     { collective_axes = "x", leader_tracked = "partitioned", partition_axis = 0 })
               end
               if change.copy then tc.when(cta:eq(0), copy) else copy() end
               tc.copy_gmem_to_smem(x:tile({ k, 0 }, { 64, change.mixed and 64 or 128 }), b[s], loaded[s],
                  not change.mixed and { collective_axes = "x", leader_tracked = "partitioned",
                    partition_axis = 1 } or nil)
            end)
         end)
         issue(function()
            local function multiply()
               if change.tiles then tc.when(t:gt(0), function() tc.barrier_wait(read) end) end
               tc.range(4, function(k)
                  tc.barrier_wait(loaded[k % 2])
                  tc.mma(acc, a[k % 2], b[k % 2],
                     { collective_axis = "x", accumulate = k:gt(0), barrier = consumed[k % 2] })
                  if change.release then
                     tc.barrier_wait(consumed[k % 2])
                     tc.barrier_arrive(freed[k % 2])
                  end
               end)
               tc.commit_arrive(done, not change.commit and { collective_axis = "x" } or nil)
            end
            local leader = change.issuer and change.issuer(cta) or cta:eq(0)
            if change.wait then
               multiply()
            elseif change.otherwise then
               tc.when(leader, function() end, multiply)
            else
               tc.when(leader, multiply)
            end
         end)
         store(function()
            tc.barrier_wait(done)
            tc.async_load_tmem(acc)
            tc.barrier_arrive(read)
         end)
      end)
   end
end

-- Operands that each CTA copies for itself; `tell`: the leader hears of the other's.
local function own_copies(tell)
   return function(x)
      local cta = tc.axis_index "x"
      local acc, a, b = operands()
      local loaded, there = tc.barrier { num_arrivals = 2 }, tc.cluster_barrier { collective_axes = "x" }
      local done, peer = tc.barrier { orders_tensor_core = true }, tc.barrier {}
      tc.copy_gmem_to_smem(x:tile({ cta, 0 }, { 128, 64 }), a, loaded)
      tc.copy_gmem_to_smem(x:tile({ 0, cta }, { 64, 128 }), b, loaded)
      tc.barrier_wait(loaded)
      if tell == "peer" then
         tc.when(cta:eq(1), function() tc.barrier_arrive(tc.cluster_ref(peer, 0)) end,
            function() tc.barrier_wait(peer) end)
      elseif tell then
         tc.barrier_arrive(there)
         tc.barrier_wait(there)
      end
      tc.mma(acc, a, b, { collective_axis = "x", accumulate = false })
      tc.commit_arrive(done, { collective_axis = "x" })
      tc.barrier_wait(done)
   end
end

describe("A kernel of two CTAs", function()
   builds("of one tile", on "sm_100a", ring())
   builds("that walks over tiles", on "sm_103a", ring { tiles = 3 })
   build_refuses("with a commit of one CTA", "Collective attributes are inconsistent across operations in the kernel.",
      on "sm_100a", ring { commit = true })
   build_refuses("whose other CTA waits for what the leader is told",
      "This wait never ends in all CTAs but the first along \"x\": barrier \"loaded\" (line 113) is "
         .. "tracked by the leader, arrivals reach it there alone.", on "sm_100a", ring { wait = true })
   build_refuses("whose other CTA waits for a cluster barrier that the leader tracks",
      "This wait never ends in all CTAs but the first along \"x\": barrier \"told\" (line 205) is "
         .. "tracked by the leader, arrivals reach it there alone.", on "sm_100a", function()
         local told = tc.cluster_barrier { collective_axes = "x", leader_tracked = true, name = "told" }
         tc.barrier_arrive(told)
         tc.barrier_wait(told)
      end)
   build_refuses("whose other CTA alone waits for a cluster barrier that the leader tracks",
      "This wait never ends in all CTAs but the first along \"x\": barrier \"told\" (line 212) is "
         .. "tracked by the leader, arrivals reach it there alone.", on "sm_100a", function()
         local told = tc.cluster_barrier { collective_axes = "x", leader_tracked = true, name = "told" }
         tc.barrier_arrive(told)
         tc.when(tc.axis_index "x":eq(1), function() tc.barrier_wait(told) end)
      end)
   build_refuses("that counts copies of both kinds on one barrier",
      "barrier \"loaded\" (line 113) gets copies with leader_tracked and copies without.",
      on "sm_100a", ring { mixed = true })
   for _, case in ipairs { { "eq", 1 }, { "gt", 0 }, { "ne", 0 }, { "ge", 1 } } do
      build_refuses("that the other CTA would issue: " .. case[1],
         "This is never issued: of the CTAs along \"x\" the first one issues it, and a tc.when leaves that one out.",
         on "sm_100a", ring { issuer = function(cta) return cta[case[1]](cta, case[2]) end })
   end
   build_refuses("that the other CTA would issue: else",
      "This is never issued: of the CTAs along \"x\" the first one issues it, and a tc.when leaves that one out.",
      on "sm_100a", ring { otherwise = true })
   builds("that the leader issues: else", on "sm_100a", ring { otherwise = true, issuer = function(cta)
      return cta:eq(1)
   end })
   for _, case in ipairs { { "lt", 1 }, { "le", 0 }, { "ne", 1 } } do
      builds("that the leader issues: " .. case[1], on "sm_100a",
         ring { issuer = function(cta) return cta[case[1]](cta, case[2]) end })
   end
   build_refuses("whose operands each CTA copies for itself",
      "This tc.mma reads a in both CTAs along \"x\", but its role learns from its own CTA alone that it has been "
        .. "copied.",
      on "sm_100a", own_copies(false))
   builds("whose operands each CTA copies for itself and tells the other", on "sm_100a", own_copies(true))
   builds("whose other CTA tells the leader by an arrival there", on "sm_100a", own_copies("peer"))
   local function into_tmem(options)
      return function(x)
         local smem, tmem = tc.smem({ 128, 64 }, tc.f16), tc.tmem({ 128, 64 }, tc.f16, { packed = true,
           collective = true })
         local loaded, done = tc.barrier {}, tc.barrier { orders_tensor_core = true }
         tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { options and 256 or 128, 64 }), smem, loaded, options)
         tc.when(tc.axis_index "x":eq(0), function()
            tc.barrier_wait(loaded)
            tc.async_copy_smem_to_tmem(smem, tmem, { collective_axis = "x" })
            tc.commit_arrive(done, { collective_axis = "x" })
         end)
         tc.barrier_wait(done)
      end
   end
   build_refuses("that copies into TMEM what each CTA has copied for itself",
      "This copy into TMEM reads src in both CTAs along \"x\", but its role learns from its own CTA alone that it has "
         .. "been copied.", on "sm_100a", into_tmem(nil))
   builds("that copies into TMEM what the leader tracks", on "sm_100a",
      into_tmem { collective_axes = "x", leader_tracked = "partitioned", partition_axis = 0 })
   build_refuses("whose copies one CTA makes",
      "Every CTA along \"x\" has to make this copy, but whether or how often it is made depends on the index along it.",
      on "sm_100a", ring { copy = true })
   build_refuses("whose slots one CTA alone is told of",
      "This copy overwrites a slot that an MMA of both CTAs along \"x\" reads, but its role waits for nothing that "
         .. "tells of that MMA in each CTA.", on "sm_100a", ring { release = true })
   build_refuses("whose accumulator is released within each CTA",
      "This tc.mma overwrites its accumulator in both CTAs along \"x\", but its role learns from its own CTA alone "
         .. "that it has been read.", on "sm_100a", ring { tiles = 3, read = function()
            return tc.barrier { orders_tensor_core = true, name = "read" }
         end })
   build_refuses("whose leader waits for more arrivals than there are",
      "This wait never ends: barrier \"loaded\" (line 113) completes after 3 arrival(s), but gets 8 for 4 waits.",
      on "sm_100a", ring { loaded = 3 })
   build_refuses("whose leader waits for fewer arrivals than there are",
      "barrier \"loaded\" (line 113) completes after 1 arrival(s), but gets 8 for 4 waits.", on "sm_100a",
      ring { loaded = 1 })
   -- Each CTA has a barrier of its own, on which only the branch of the other one arrives.
   local function one_sided(num_arrivals, otherwise)
      return function()
         local told = tc.barrier { num_arrivals = num_arrivals, name = "told" }
         local tell, hear = tc.role { name = "tell", warps = 1 }, tc.role { name = "hear", warps = 1 }
         tell(function()
            tc.when(tc.axis_index "x":eq(0), function() tc.barrier_arrive(told) end, otherwise and function()
               tc.barrier_arrive(told)
               tc.barrier_arrive(told)
            end)
         end)
         hear(function() tc.when(tc.axis_index "x":gt(0), function() tc.barrier_wait(told) end) end)
      end
   end
   local told_at = debug.getinfo(1, "l").currentline - 11
   build_refuses("that waits where nothing arrives",
      ("This wait never ends: nothing arrives on barrier \"told\" (line %d)."):format(told_at), on "sm_100a",
      one_sided(1))
   build_refuses("that waits where too little arrives",
      ("This wait never ends: barrier \"told\" (line %d) completes after 3 arrival(s), but gets 2 for 1 wait.")
         :format(told_at), on "sm_100a", one_sided(3, true))
   builds("that waits where enough arrives", on "sm_100a", one_sided(2, true))
   it("is refused with the load and the arrival that the leader does not hear of in the other CTA", function()
      local function more(read)
         return helper.message(function()
            tc.kernel { name = "kernel", target = "sm_100a", cluster = { 2 }, cluster_names = { "x" },
               args = pair.args, body = ring { tiles = 3, read = read } }:ptx()
         end)
      end
      local function own() return tc.barrier { orders_tensor_core = true, name = "read" } end
      assert.matches("\n  it is read at line 164 %(role 'store'%)\n  barrier \"read\" %(line %d+%) tells of that, "
         .. "by the tc.barrier_arrive at line 165: in its own CTA alone\n", more(own))
   end)
   it("is refused with the CTA that it is wrong in", function()
      local message = helper.message(function()
         tc.kernel { name = "kernel", target = "sm_100a", cluster = { 2 }, cluster_names = { "x" },
            body = one_sided(1) }:ptx()
      end)
      assert.matches('\n  in the CTA of a cluster with index 1 along "x"', message, 1, true)
   end)
   build_refuses("is none of Hopper's: its tensor memory",
      "Collective TMEM does not exist on sm_90a: there, tensor memory lies in registers of one CTA.", on "sm_90a",
        function()
         tc.tmem({ 128, 128 }, tc.f32, { collective = true })
      end)
   build_refuses("is none of Hopper's: its copies", "a copy with leader_tracked does not run on sm_90a: there, a copy "
      .. "signals barriers of the CTAs that it writes to, not that of a pair's first CTA.", on "sm_90a", function(x)
         local s, b = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}
         tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 256, 64 }), s, b,
            { collective_axes = "x", leader_tracked = "partitioned", partition_axis = 0 })
         tc.when(tc.axis_index "x":eq(0), function() tc.barrier_wait(b) end)
      end)
   builds("loads its parts on Hopper with barriers of each CTA", on "sm_90a", function(x)
      local s, b = tc.smem({ 128, 64 }, tc.f16), tc.barrier {}
      tc.copy_gmem_to_smem(x:tile({ 0, 0 }, { 256, 64 }), s, b, { collective_axes = "x", partition_axis = 0 })
      tc.barrier_wait(b)
   end)
end)

describe("A's 64 rows in TMEM of a pair", function()
   local function twice(rows, columns, dtype, options)
      options = options or {}
      options.layout, options.collective = "m64_collective_a", true
      return tc.tmem({ rows, columns }, dtype, options)
   end
   refuses("loads", "TMEM layout m64_collective_a(packing=2) is not supported", function()
      local a, other = twice(64, 64, tc.f16), tc.tmem({ 64, 64 }, tc.f16, { packed = true, collective = true })
      return function() tc.async_load_tmem(a) end, function() tc.async_load_tmem(other) end
   end, pair)
   refuses("rows", "(96, 64) is not divisible into tiles of shape (64, 1)", function()
      return function() twice(96, 64, tc.f16) end, function() twice(64, 64, tc.f16) end
   end, pair)
   refuses("columns not full", "Minor dimension of shape must be divisible by packing, got: (64, 63)", function()
      return function() twice(64, 63, tc.f16) end, function() twice(64, 62, tc.f16) end
   end, pair)
   refuses("elements of 6 bits without padding", "Packing must be <= 8 and a power of 2, got: 5", function()
      return function() twice(64, 64, tc.e3m2) end, function() twice(64, 64, tc.e3m2, { padded = true }) end
   end, pair)
   refuses("an operand of 128 rows", "A layout mismatch: expected default(packing=2), got m64_collective_a(packing=2)",
      function()
         local acc, b = tc.tmem({ 128, 128 }, tc.f32, { collective = true }), tc.smem({ 64, 64 }, tc.f16)
         local a, good = twice(128, 64, tc.f16), tc.tmem({ 128, 64 }, tc.f16, { packed = true, collective = true })
         return function() tc.mma(acc, a, b, { collective_axis = "x" }) end,
            function() tc.mma(acc, good, b, { collective_axis = "x" }) end
      end, pair)
end)
