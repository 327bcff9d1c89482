-- Kernels whose synchronisation is right, although it looks like what is refused: they are built, assembled, and run
-- without a hazard, with results that are copies of the input.
local tc = require "tcmma"
local shared = require "verify_kernels"

local TILES, ROWS, COLUMNS = shared.TILES, shared.ROWS, shared.COLUMNS
local copies, tile, store, roles = shared.copies, shared.tile, shared.store, shared.roles
local pair, multicast = shared.pair, shared.multicast

describe("Multicast copies that are right:", function()
   for _, slots in ipairs { 8, 2 } do
      copies(("as many turns as there are slots, %d"):format(slots), pair, function(x, y)
         local c, load, use = tc.axis_index "c", roles()
         local s, full = tc.smem({ slots, ROWS, COLUMNS }, "f16"), tc.barrier { num_barriers = slots }
         load(function()
            tc.range(slots, function(k) tc.copy_gmem_to_smem(tile(x, k), s[k], full[k], multicast) end)
         end)
         use(function()
            tc.range(slots, function(k)
               tc.barrier_wait(full[k])
               store(y, s[k], k, c)
            end)
            for k = slots, TILES - 1 do
               local f = x:tile({ k, 0 }, { ROWS, COLUMNS })
               local own = tc.barrier {}
               local t = tc.smem({ ROWS, COLUMNS }, "f16")
               tc.copy_gmem_to_smem(f, t, own)
               tc.barrier_wait(own)
               store(y, t, k, c)
            end
         end)
      end)
   end
   copies("one barrier for all slots", pair, function(x, y)
      local c, s, full = tc.axis_index "c", tc.smem({ 8, ROWS, COLUMNS }, "f16"), tc.barrier { num_arrivals = 8 }
      tc.range(8, function(k) tc.copy_gmem_to_smem(tile(x, k), s[k], full, multicast) end)
      tc.barrier_wait(full)
      tc.range(8, function(k) store(y, s[k], k, c) end)
   end)
   copies("slots that an expression of two counters names", pair, function(x, y)
      local c, s, full = tc.axis_index "c", tc.smem({ 8, ROWS, COLUMNS }, "f16"), tc.barrier { num_arrivals = 8 }
      tc.range(2, function(i)
         tc.range(4, function(j)
            local k = 7 - (i * 4 + j)
            tc.copy_gmem_to_smem(tile(x, k), s[k], full, multicast)
         end)
      end)
      tc.barrier_wait(full)
      tc.range(8, function(k) store(y, s[k], k, c) end)
   end)
   copies("as many turns as memory says", pair, function(x, y, flags)
      local c, s, full = tc.axis_index "c", tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}
      for k = 0, 7 do
         local t, own = tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}
         if k > 0 then
            tc.copy_gmem_to_smem(tile(x, k), t, own)
            tc.barrier_wait(own)
            tc.when(c:eq(0), function() tc.copy_smem_to_gmem(t, tile(y, k)) end)
         end
      end
      tc.range(flags[1]:load(), function(k)
         tc.copy_gmem_to_smem(tile(x, k), s, full, multicast)
         tc.barrier_wait(full)
         store(y, s, k, c)
      end)
      tc.wait_smem_to_gmem(0)
   end)

   -- A ring of one slot; free() in the role that copies, freed() in the one that reads.
   local function ring(prepare)
      return function(x, y, flags)
         local c, load, use = tc.axis_index "c", roles()
         local s, full = tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}
         local free, freed, own = prepare(c, x, flags)
         load(function()
            tc.range(TILES, function(k)
               tc.when(k:ge(1), function() free(k) end)
               if own then own(k) end
               tc.copy_gmem_to_smem(tile(x, k), s, full, multicast)
            end)
         end)
         use(function()
            tc.range(TILES, function(k)
               tc.barrier_wait(full)
               store(y, s, k, c)
               freed(k)
            end)
         end)
      end
   end
   copies("a release by a cluster barrier", pair, ring(function()
      local b = tc.cluster_barrier { collective_axes = "c" }
      return function() tc.barrier_wait(b) end, function() tc.barrier_arrive(b) end
   end))
   copies("a release by an arrival in the other CTA", pair, ring(function()
      local b = tc.barrier { num_arrivals = 2 }
      return function() tc.barrier_wait(b) end, function()
         for cta = 0, 1 do tc.barrier_arrive(tc.cluster_ref(b, cta)) end
      end
   end))
   copies("a release by a semaphore", pair, ring(function(_, _, flags)
      return function(k) tc.semaphore_wait(flags[4], k * 2, { decrement = false }) end,
         function() tc.semaphore_signal(flags[4]) end
   end))
   copies("a release by a semaphore that another role waits for", pair, ring(function(_, _, flags)
      local told, done = tc.barrier {}, tc.barrier {}
      tc.role { name = "relay", warps = 1 }(function()
         tc.range(TILES - 1, function(k)
            tc.semaphore_wait(flags[4], (k + 1) * 2, { decrement = false })
            tc.barrier_arrive(told)
            tc.barrier_wait(done)
         end)
      end)
      return function()
         tc.barrier_wait(told)
         tc.barrier_arrive(done)
      end, function() tc.semaphore_signal(flags[4]) end
   end))
   copies("a release by two branches, of which each CTA takes one", pair, ring(function(c)
      local all, own = tc.cluster_barrier { collective_axes = "c" }, tc.barrier {}
      tc.role { name = "relay", warps = 1 }(function()
         tc.range(TILES - 1, function()
            tc.when(c:eq(0), function()
               tc.barrier_wait(all)
               tc.barrier_arrive(own)
            end, function()
               tc.barrier_wait(all)
               tc.barrier_arrive(own)
            end)
         end)
      end)
      return function() tc.barrier_wait(own) end, function() tc.barrier_arrive(all) end
   end))
   -- What all CTAs copy together has come when all have made it: each had waited for its own release.
   copies("a release by another copy that all make", pair, ring(function(_, x)
      local own, token, all = tc.barrier {}, tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}
      return function()
         tc.barrier_wait(own)
         tc.copy_gmem_to_smem(tile(x, 0), token, all, multicast)
         tc.barrier_wait(all)
      end, function() tc.barrier_arrive(own) end
   end))
   for _, slots in ipairs { 2, 3 } do
      for _, unrolled in ipairs { false, true } do
         copies(("%d slots, each copy tells of the one before%s"):format(slots, unrolled and ", unrolled" or ""), pair,
            function(x, y)
               local c, s = tc.axis_index "c", tc.smem({ slots, ROWS, COLUMNS }, "f16")
               local full = tc.barrier { num_barriers = slots }
               local function step(k)
                  tc.copy_gmem_to_smem(tile(x, k), s[k % slots], full[k % slots], multicast)
                  tc.barrier_wait(full[k % slots])
                  store(y, s[k % slots], k, c)
               end
               if unrolled then
                  for k = 0, TILES - 1 do step(k) end
               else
                  tc.range(TILES, step)
               end
            end)
      end
   end
   copies("two loops, of which each copy tells of the one before", pair, function(x, y)
      local c, s = tc.axis_index "c", tc.smem({ 4, ROWS, COLUMNS }, "f16")
      local full = tc.barrier { num_barriers = 4 }
      for from = 0, 4, 4 do
         tc.range(4, function(k)
            tc.copy_gmem_to_smem(tile(x, k + from), s[k], full[k], multicast)
            tc.barrier_wait(full[k])
            store(y, s[k], k + from, c)
         end)
      end
   end)
   copies("a release by one barrier along each axis",
      { cluster = { 2, 2 }, cluster_names = { "d", "c" } }, function(x, y)
         local c, d, load, use = tc.axis_index "c", tc.axis_index "d", roles()
         local s, full = tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}
         local row, all = tc.cluster_barrier { collective_axes = "c" }, tc.cluster_barrier { collective_axes = "d" }
         load(function()
            tc.range(TILES, function(k)
               tc.when(k:ge(1), function() tc.barrier_wait(all) end)
               tc.copy_gmem_to_smem(tile(x, k), s, full, { collective_axes = { "d", "c" } })
            end)
         end)
         use(function()
            tc.range(TILES, function(k)
               tc.barrier_wait(full)
               tc.when(d:eq(0), function() store(y, s, k, c) end)
               tc.barrier_arrive(row)
               tc.barrier_wait(row)
               tc.barrier_arrive(all)
            end)
         end)
      end)
   copies("a release along the only axis that is wide",
      { cluster = { 1, 2 }, cluster_names = { "d", "c" } }, function(x, y)
         local c, s, full = tc.axis_index "c", tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}
         local free = tc.cluster_barrier { collective_axes = "c" }
         tc.range(TILES, function(k)
            tc.copy_gmem_to_smem(tile(x, k), s, full, { collective_axes = { "d", "c" } })
            tc.barrier_wait(full)
            store(y, s, k, c)
            tc.barrier_arrive(free)
            tc.barrier_wait(free)
         end)
      end)

   -- `make` runs the copy, in a way that looks as if the CTAs differ.
   local function decided(make)
      return function(x, y)
         local c, s, full = tc.axis_index "c", tc.smem({ 8, ROWS, COLUMNS }, "f16"), tc.barrier { num_arrivals = 8 }
         local n = tc.var(0)
         make(c, function()
            local k = n:get()
            tc.copy_gmem_to_smem(tile(x, k), s[k], full, multicast)
            n:set(k + 1)
         end)
         tc.barrier_wait(full)
         tc.range(8, function(k) store(y, s[k], k, c) end)
      end
   end
   copies("a range of other counters, but as many", pair, decided(function(c, fn) tc.range(c, 16, 2, fn) end))
   copies("a branch that all take", pair, decided(function(c, fn)
      tc.when((c + 1):gt(0), function() tc.range(8, fn) end)
   end))
   copies("a branch whose two sides make it", pair, decided(function(c, fn)
      tc.when(c:eq(0), function() tc.range(8, fn) end, function() tc.range(8, fn) end)
   end))
   copies("turns that a var decides", pair, decided(function(c, fn)
      local last = tc.var(c)
      tc.range(8 + last:get() - c, fn)
   end))

   -- Forms of a loop of 8 turns that decide nothing for verify, and of its guard.
   local loops = {
      range = function(_, fn) tc.range(TILES, fn) end,
      unrolled = function(_, fn) for k = 0, TILES - 1 do fn(k) end end,
      loaded = function(flags, fn) tc.range(flags[0]:load(), fn) end,
      loop = function(_, fn)
         local v = tc.var(0)
         tc.loop(function()
            fn(v:get())
            v:set(v:get() + 1)
            tc.stop(v:get():ge(TILES))
         end)
      end,
      nested = function(_, fn) tc.range(2, function(i) tc.range(4, function(j) fn(i * 4 + j) end) end) end,
      branch = function(flags, fn) tc.when(flags[1]:load():eq(1), function() tc.range(TILES, fn) end) end,
   }
   local names = {}
   for name in pairs(loops) do names[#names + 1] = name end
   table.sort(names)
   local function recorded(k) return type(k) == "number" and tc.var(k):get() or k end
   -- A linear congruence: the same kernels on every machine.
   local state = 1
   local function draw(low, high)
      state = (state * 1103515245 + 12345) & 0x7fffffff
      return low + state // 65536 % (high - low + 1)
   end
   for _ = 1, 24 do
      local slots, offset = draw(1, 4), draw(0, 3)
      local producer, consumer = names[draw(1, #names)], names[draw(1, #names)]
      local guard, release = draw(1, 3), draw(1, 3)
      copies(("%d slots from %d, %s and %s, guard %d, release %d"):format(slots, offset, producer, consumer, guard,
         release), pair, function(x, y, flags)
         local c, load, use = tc.axis_index "c", roles()
         local s, full = tc.smem({ slots, ROWS, COLUMNS }, "f16"), tc.barrier { num_barriers = slots }
         local free = release == 1 and tc.cluster_barrier { collective_axes = "c", num_barriers = slots }
            or tc.barrier { num_barriers = slots, num_arrivals = 2 }
         load(function()
            local n = tc.var(0)
            loops[producer](flags, function(k)
               local q = (k + offset) % slots
               local function wait()
                  if release == 3 then
                     for i = 2, 4, 2 do tc.semaphore_wait(flags[i], k - slots + 1, { decrement = false }) end
                  else
                     tc.barrier_wait(free[q])
                  end
               end
               if guard == 1 then
                  tc.when(recorded(k):ge(slots), wait)
               elseif guard == 2 then
                  tc.when(n:get():ge(slots), wait)
               else
                  tc.when((n:get() - slots):lt(0), function() end, wait)
               end
               tc.copy_gmem_to_smem(tile(x, k), s[q], full[q], multicast)
               n:set(n:get() + 1)
            end)
         end)
         use(function()
            loops[consumer](flags, function(k)
               local q = (k + offset) % slots
               tc.barrier_wait(full[q])
               store(y, s[q], k, c)
               if release == 1 then
                  tc.barrier_arrive(free[q])
               elseif release == 2 then
                  for cta = 0, 1 do tc.barrier_arrive(tc.cluster_ref(free[q], cta)) end
               else
                  tc.semaphore_signal(flags[c * 2 + 2])
               end
            end)
         end)
      end)
   end
end)

describe("Waits that are right:", function()
   -- One CTA of two copies all, tile by tile, through a slot; `around` gets that and is called in a role of its own.
   local function beside(options, around)
      return options, function(x, y, flags)
         local c = options.cluster and tc.axis_index "c" or 0
         local s, full = tc.smem({ ROWS, COLUMNS }, "f16"), tc.barrier {}
         local move, other = tc.role { name = "move", warps = 1 }, tc.role { name = "other", warps = 1 }
         local third = tc.role { name = "third", warps = 1 }
         around(move, other, third, function()
            tc.range(TILES, function(k)
               tc.copy_gmem_to_smem(tile(x, k), s, full)
               tc.barrier_wait(full)
               tc.copy_smem_to_gmem(s, tile(y, k))
               tc.wait_smem_to_gmem(0)
            end)
         end, flags, c, x)
      end
   end
   copies("of the phase before the first", beside({}, function(move, _, _, all)
      local b = tc.barrier {}
      move(function()
         tc.barrier_wait(b, { parity = 1 })
         all()
      end)
   end))
   copies("below a branch that is not taken, where nothing arrives", beside({}, function(move, _, _, all)
      local b = tc.barrier {}
      move(function()
         tc.range(2, function(k) tc.when(k:ge(2), function() tc.barrier_wait(b) end) end)
         all()
      end)
   end))
   copies("in loops without a turn", beside({}, function(move, _, _, all, _, _, x)
      local b, d, s = tc.barrier {}, tc.barrier {}, tc.smem({ ROWS, COLUMNS }, "f16")
      move(function()
         tc.range(0, function()
            tc.barrier_wait(b)
            tc.copy_gmem_to_smem(tile(x, 0), s, d)
         end)
         all()
      end)
   end))
   copies("for the first of many phases, while another role waits for all", beside({}, function(move, other, third, all)
      local b, back, first = tc.barrier {}, tc.barrier {}, tc.barrier {}
      move(function()
         tc.range(6, function(k)
            tc.barrier_arrive(b)
            tc.barrier_wait(back)
            tc.when(k:eq(0), function() tc.barrier_wait(first) end)
         end)
         all()
      end)
      other(function()
         tc.range(6, function()
            tc.barrier_wait(b)
            tc.barrier_arrive(back)
         end)
      end)
      third(function()
         tc.barrier_wait(b)
         tc.barrier_arrive(first)
      end)
   end))
   copies("that end before the arrivals do", beside({}, function(move, other, _, all)
      local b, back = tc.barrier {}, tc.barrier {}
      move(function()
         tc.barrier_arrive(b)
         tc.barrier_wait(back)
         for _ = 1, 3 do tc.barrier_arrive(b) end
         all()
      end)
      other(function()
         tc.barrier_wait(b)
         tc.barrier_arrive(back)
      end)
   end))
   copies("of one CTA, for an arrival behind it in the other one",
      beside(pair, function(move, _, _, all, _, c)
         local b = tc.barrier {}
         move(function()
            tc.range(c, function() tc.barrier_wait(b) end)
            tc.when(c:eq(0), all)
            tc.when(c:eq(0), function() tc.barrier_arrive(tc.cluster_ref(b, 1)) end)
         end)
      end))
   copies("in a loop that memory leaves out in one CTA", beside(pair, function(move, _, _, all, flags, c)
      local b = tc.barrier {}
      move(function()
         tc.range(flags[2 - c]:load(), function() tc.barrier_wait(b) end)
         tc.barrier_arrive(tc.cluster_ref(b, 1 - c))
         tc.when(c:eq(0), all)
      end)
   end))
   copies("in loops of which one has no turn", beside({}, function(move, other, _, all, flags)
      local x, y = tc.barrier {}, tc.barrier {}
      move(function()
         tc.range(flags[2]:load(), function() tc.barrier_wait(x) end)
         tc.barrier_arrive(y)
         all()
      end)
      other(function()
         tc.range(flags[1]:load(), function() tc.barrier_wait(y) end)
         tc.barrier_arrive(x)
      end)
   end))
   copies("in an inner loop whose first turn is empty", beside({}, function(move, other, _, all)
      local x, y = tc.barrier {}, tc.barrier {}
      move(function()
         tc.range(2, function(i)
            tc.range(i, function() tc.barrier_wait(x) end)
            tc.barrier_arrive(y)
         end)
         all()
      end)
      other(function()
         tc.barrier_wait(y)
         tc.barrier_arrive(x)
         tc.barrier_wait(y)
      end)
   end))
end)
