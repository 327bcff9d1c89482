-- A role's own loads and stores of tensor memory come one after the other (docs/semantics.md 6), whichever of its
-- warpgroups makes them: programs of moves between slices, compared with the same moves on the host, without hazards.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local function generator(seed)
   local state = seed * 2654435761 + 12345
   return function(n)
      state = state * 6364136223846793005 + 1442695040888963407
      return (state >> 33) % n
   end
end

-- The tile as a kernel sees it, and as the host does: `columns`, by column the source of its values and what was added.
local function host(count)
   local columns = {}
   for c = 0, count - 1 do columns[c] = { from = c, plus = 0 } end
   return columns
end

local function move_on_host(columns, from, to, width, plus)
   local moved = {}
   for i = 0, width - 1 do moved[i] = columns[from + i] end
   for i = 0, width - 1 do columns[to + i] = { from = moved[i].from, plus = moved[i].plus + plus } end
end

local function move(t, from, to, width, plus)
   local piece = tc.async_load_tmem(t:at(tc.all, tc.ds(from, width)))
   if plus ~= 0 then piece = piece + plus end
   tc.async_store_tmem(t:at(tc.all, tc.ds(to, width)), piece)
end

-- body(t, columns) moves between slices of tile t, and on the host. o: rows, columns, warpgroups, dtype, tile: of
-- where t lies, a function.
local function check(o, body, text)
   local dtype, shape = o.dtype or tc.f32, { o.rows or 128, o.columns }
   local columns = host(o.columns)
   local kernel = tc.kernel {
      name = "moves", target = "sm_100a", args = { tc.gmem(shape, dtype), tc.gmem(shape, dtype) },
      body = function(source, out)
         local t = o.tile and o.tile(shape) or tc.tmem(shape, dtype, dtype.bits < 32 and { packed = true } or nil)
         tc.role { name = "moves", warpgroups = o.warpgroups }(function()
            tc.async_store_tmem(t, source:load())
            body(t, columns)
            out:store(tc.async_load_tmem(t))
         end)
      end,
   }
   local source, out = kernels.integers(shape, dtype, 3), tc.zeros(shape, dtype)
   local rows, expected = source:totable(), {}
   for r, row in ipairs(rows) do
      expected[r] = {}
      for c = 0, o.columns - 1 do expected[r][c + 1] = row[columns[c].from + 1] + columns[c].plus end
   end
   expected = tc.from_table(expected, tc.f64)
   for _, mode in ipairs { "check", "random" } do
      local report = kernel:emulate({ target = "sm_100a", mode = mode }, source, out)
      assert.are.same({}, report.hazards, text)
      assert.are.equal(0, (tc.max_error(out, expected)), text)
   end
   return kernel:ptx { target = "sm_100a" }
end

local function barriers(text)
   local _, count = text:gsub("bar%.sync [1-9]", "")
   return count
end

describe("A role's loads and stores of tensor memory", function()
   for _, rows in ipairs { 64, 128 } do
      for _, warpgroups in ipairs { 1, 2, 4 } do
         it(("are in order: %d rows, %d warpgroups"):format(rows, warpgroups), function()
            for columns = 8, 64, 8 do
               check({ rows = rows, columns = columns, warpgroups = warpgroups }, function(t, list)
                  move(t, 0, 0, columns, 1)
                  move_on_host(list, 0, 0, columns, 1)
               end, columns .. " columns")
            end
         end)

         it(("are in order: %d rows, %d warpgroups, any slices"):format(rows, warpgroups), function()
            for seed = 1, 12 do
               local random = generator(seed)
               check({ rows = rows, columns = 64, warpgroups = warpgroups }, function(t, list)
                  for _ = 1, 6 do
                     local width = 8 * (1 + random(4))
                     local from, to = 8 * random((64 - width) // 8 + 1), 8 * random((64 - width) // 8 + 1)
                     move(t, from, to, width, 1)
                     move_on_host(list, from, to, width, 1)
                     if random(4) == 0 then tc.wait_load_tmem() end
                     if random(4) == 0 then tc.commit_tmem() end
                  end
               end, "seed " .. seed)
            end
         end)
      end
   end

   it("are in order: elements of 16 and 8 bits", function()
      for _, dtype in ipairs { tc.f16, tc.e4m3 } do
         local step = 8 * 32 // dtype.bits
         check({ columns = 4 * step, warpgroups = 2, dtype = dtype }, function(t, list)
            local moves = { { 0, step, 2 * step }, { step, 0, step }, { 0, 2 * step, 2 * step }, { 0, 0, step } }
            for _, m in ipairs(moves) do
               move(t, m[1], m[2], m[3], 0)
               move_on_host(list, m[1], m[2], m[3], 0)
            end
         end)
      end
   end)

   it("are in order in loops and branches", function()
      for _, width in ipairs { 8, 16, 24 } do
         check({ columns = 64, warpgroups = 2 }, function(t, list)
            tc.range(3, function(i)
               move(t, 0, 16, width, 1)
               tc.when(i:eq(1), function() move(t, 16, 40, width, 2) end, function() move(t, 40, 0, width, 3) end)
               move(t, 8, 24, width, 4)
            end)
            for i = 0, 2 do
               move_on_host(list, 0, 16, width, 1)
               if i == 1 then move_on_host(list, 16, 40, width, 2) else move_on_host(list, 40, 0, width, 3) end
               move_on_host(list, 8, 24, width, 4)
            end
         end, width .. " columns")
      end
   end)

   it("are in order in a loop that is left in its middle", function()
      check({ columns = 32, warpgroups = 2 }, function(t, list)
         local turn = tc.var(0)
         tc.loop(function()
            move(t, 0, 8, 8, 1)
            tc.stop(turn:get():ge(2))
            turn:set(turn:get() + 1)
            move(t, 8, 0, 8, 1)
            tc.commit_tmem()
         end)
         move(t, 0, 16, 16, 5)
         for i = 0, 2 do
            move_on_host(list, 0, 8, 8, 1)
            if i < 2 then move_on_host(list, 8, 0, 8, 1) end
         end
         move_on_host(list, 0, 16, 16, 5)
      end)
   end)

   it("are in order where slices begin at recorded columns", function()
      for _, width in ipairs { 8, 16 } do
         check({ columns = 64, warpgroups = 2 }, function(t, list)
            tc.range(64 // width - 1, function(i) move(t, i * width, (i + 1) * width, width, 1) end)
            tc.range(64 // width, function(i) move(t, i * width, i * width, width, 1) end)
            for i = 0, 64 // width - 2 do move_on_host(list, i * width, (i + 1) * width, width, 1) end
            for i = 0, 64 // width - 1 do move_on_host(list, i * width, i * width, width, 1) end
         end, width .. " columns")
      end
   end)

   it("are in order where slots are recorded", function()
      local slots
      local function tile(shape)
         slots = tc.tmem({ 2, shape[1], shape[2] }, tc.f32)
         return slots[0]
      end
      for _, width in ipairs { 8, 16, 32 } do
         check({ columns = 32, warpgroups = 2, tile = tile }, function(t, list)
            tc.async_store_tmem(slots[1], tc.async_load_tmem(t))
            tc.range(4, function(i)
               move(slots[i % 2], 0, 0, width, 1)
               tc.async_store_tmem(slots[1 - i % 2], tc.async_load_tmem(slots[i % 2]))
            end)
            for _ = 1, 4 do move_on_host(list, 0, 0, width, 1) end
         end, width .. " columns")
      end
   end)

   it("are in order through another member of a union", function()
      local other
      local function tile(shape)
         local whole, a = tc.tmem(shape, tc.f32), tc.tmem({ 128, 16 }, tc.f32)
         other = tc.tmem({ 128, 16 }, tc.f32)
         tc.union({ whole }, { a, other })
         return whole
      end
      check({ columns = 64, warpgroups = 2, tile = tile }, function(t, list)
         move(t, 8, 32, 32, 1)
         tc.async_store_tmem(other, tc.async_load_tmem(t:at(tc.all, tc.ds(32, 16))) + 2)
         move(t, 16, 0, 24, 3)
         move_on_host(list, 8, 32, 32, 1)
         move_on_host(list, 32, 16, 16, 2)
         move_on_host(list, 16, 0, 24, 3)
      end)
   end)

   it("of a pair with 64 rows are in order", function()
      local kernel = tc.kernel {
         name = "pair", target = "sm_100a", cluster = { 2 }, cluster_names = { "cta" },
         args = { tc.gmem({ 64, 16 }, tc.f32), tc.gmem({ 2, 64, 16 }, tc.f32) },
         body = function(source, out)
            local t = tc.tmem({ 64, 16 }, tc.f32, { collective = true })
            tc.role { name = "moves", warpgroups = 2 }(function()
               tc.async_store_tmem(t, source:load())
               tc.async_store_tmem(t, tc.async_load_tmem(t) + 1)
               out[tc.axis_index "cta"]:store(tc.async_load_tmem(t))
            end)
         end,
      }
      local source, out = kernels.integers({ 64, 16 }, tc.f32, 1), tc.zeros({ 2, 64, 16 }, tc.f32)
      local report = kernel:emulate({ target = "sm_100a", mode = "check" }, source, out)
      assert.are.same({}, report.hazards)
      for r = 0, 63 do
         for c = 0, 15 do
            assert.are.equal(source:get(r, c) + 1, out:get(0, r, c))
            assert.are.equal(source:get(r, c) + 1, out:get(1, r, c))
         end
      end
   end)
end)

describe("The text of a role's loads and stores of tensor memory", function()
   local function text(columns, warpgroups, body)
      return check({ columns = columns, warpgroups = warpgroups }, function(t, list)
         body(t)
         move_on_host(list, 0, 0, columns, 2)
      end)
   end
   local function twice(columns)
      return function(t)
         move(t, 0, 0, columns, 1)
         move(t, 0, 0, columns, 1)
      end
   end

   it("has no barrier where each warpgroup accesses its own columns", function()
      assert.are.equal(0, barriers(text(8, 1, twice(8))))
      assert.are.equal(0, barriers(text(64, 2, twice(64))))
      assert.are.equal(0, barriers(text(32, 4, twice(32))))
   end)

   it("has one between a load and a store of columns that all warpgroups load", function()
      assert.are.equal(5, barriers(text(8, 2, twice(8))))
   end)

   it("has none beside those of the kernel", function()
      local own = text(8, 2, function(t)
         for _ = 1, 2 do
            tc.commit_tmem()
            local piece = tc.async_load_tmem(t)
            tc.wait_load_tmem()
            tc.async_store_tmem(t, piece + 1)
         end
         tc.commit_tmem()
      end)
      assert.are.equal(5, barriers(own))
   end)

   it("waits for a store of the same threads before the next to the same columns", function()
      local function count(to)
         local s = check({ columns = 64, warpgroups = 1 }, function(t, list)
            local piece = tc.async_load_tmem(t:at(tc.all, tc.ds(0, 16)))
            tc.async_store_tmem(t:at(tc.all, tc.ds(32, 16)), piece)
            tc.async_store_tmem(t:at(tc.all, tc.ds(to, 16)), piece)
            move_on_host(list, 0, 32, 16, 0)
            move_on_host(list, 0, to, 16, 0)
         end)
         local _, waits = s:gsub("tcgen05%.wait::st", "")
         return waits
      end
      assert.are.equal(count(48) + 1, count(40))
   end)
end)
