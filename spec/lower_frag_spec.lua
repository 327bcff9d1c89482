-- Fragments on the emulator, against values computed here in doubles.
local tc = require "tcmma"
local cases = require "fragment_cases"

local run, same, map2, numbers = cases.run, cases.same, cases.map2, cases.numbers

cases.define(it)

describe("tc.print of a fragment", function()
   local function printed(array, body)
      local k = tc.kernel({
         name = "show", args = { tc.gmem(array.shape, array.dtype) }, grid = { 1 }, grid_names = { "x" }, body = body,
      })
      return k:emulate({ target = "sm_100a" }, array).output
   end

   it("shows its type, its shape and a corner of its values", function()
      local a = tc.arange(0, 60, "f16")
      local text = printed(a, function(x)
         tc.print("100% of {}", x:load())
      end)
      assert.equal("100% of float16 (60,)\n  0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ...\n", text)
   end)

   it("has a line a row", function()
      local text = printed(tc.from_table({ { 1, -2 }, { 3, 4 } }, tc.i32), function(x)
         tc.print("{}", x:load():gt(0))
         tc.print("{}", x:load())
      end)
      assert.equal("bool (2, 2)\n  [0] 1 0\n  [1] 1 1\nint32 (2, 2)\n  [0] 1 -2\n  [1] 3 4\n", text)
   end)
end)

-- The MMA says independently where elements of TMEM are: acc = A x identity.
describe("a tile of TMEM", function()
   local function identity(n)
      return tc.from_table(map2(n, n, function(i, j)
         return i == j and 1 or 0
      end), tc.f16)
   end

   local function product(M, acc_dtype, warpgroups, epilogue)
      local a, b, out = numbers({ M, 64 }, tc.f16, 28), identity(64), tc.zeros({ M, 64 }, tc.f16)
      run("sm_100a", {}, { a, b, out }, function(x, y, o)
         local sa = tc.smem({ M, 64 }, tc.f16)
         local sb = tc.smem({ 64, 64 }, tc.f16, { swizzle = M == 64 and 64 or 128 })
         local acc = tc.tmem({ M, 64 }, acc_dtype, acc_dtype ~= tc.f32 and { packed = false } or {})
         local loaded, done = tc.barrier({ num_arrivals = 2 }), tc.barrier({ orders_tensor_core = true })
         local main = tc.role({ name = "main", warpgroups = warpgroups })
         main(function()
            tc.copy_gmem_to_smem(x, sa, loaded)
            tc.copy_gmem_to_smem(y, sb, loaded)
            tc.barrier_wait(loaded)
            tc.mma(acc, sa, sb, { barrier = done, accumulate = false })
            tc.barrier_wait(done)
            epilogue(acc, o)
         end)
      end)
      return a, out
   end

   for _, M in ipairs({ 128, 64 }) do
      for _, acc in ipairs({ "f32", "f16" }) do
         for _, warpgroups in ipairs({ 1, 2 }) do
            local title = ("%d rows of %s, %d warpgroup%s"):format(M, acc, warpgroups, warpgroups > 1 and "s" or "")
            it("is loaded as the MMA wrote it: " .. title, function()
               local a, out = product(M, tc[acc], warpgroups, function(t, o)
                  o:store(tc.async_load_tmem(t):astype(tc.f16))
               end)
               same(a:totable(), out, 0, title)
            end)
            it("reaches TMA through swizzled SMEM: " .. title, function()
               local a, out = product(M, tc[acc], warpgroups, function(t, o)
                  for _, swizzle in ipairs({ 32, 64, 128 }) do
                     local s = tc.smem({ M, 64 }, tc.f16, { swizzle = swizzle })
                     s:store(tc.async_load_tmem(t):astype(tc.f16))
                     tc.commit_smem()
                     tc.copy_smem_to_gmem(s, o)
                     tc.wait_smem_to_gmem(0)
                  end
               end)
               same(a:totable(), out, 0, title)
            end)
            it("comes back from a store: " .. title, function()
               local a, out = product(M, tc[acc], warpgroups, function(t, o)
                  tc.async_store_tmem(t, tc.async_load_tmem(t) * 2)
                  tc.commit_tmem()
                  o:store(tc.async_load_tmem(t:at(tc.all, tc.ds(0, 64))):astype(tc.f16))
               end)
               local v = a:totable()
               same(map2(M, 64, function(i, j)
                  return 2 * v[i][j]
               end), out, 0, title)
            end)
         end
      end
   end

   for _, M in ipairs({ 128 }) do
      it("of " .. M .. " rows is an operand A as registers stored it", function()
         local a, b, out = numbers({ M, 64 }, tc.f16, 29), identity(64), tc.zeros({ M, 64 }, tc.f32)
         run("sm_100a", {}, { a, b, out }, function(x, y, o)
            local sb = tc.smem({ 64, 64 }, tc.f16)
            local p, acc = tc.tmem({ M, 64 }, tc.f16, { packed = true }), tc.tmem({ M, 64 }, tc.f32)
            local loaded, done = tc.barrier({}), tc.barrier({ orders_tensor_core = true })
            tc.copy_gmem_to_smem(y, sb, loaded)
            tc.async_store_tmem(p, x:load())
            tc.commit_tmem()
            tc.barrier_wait(loaded)
            tc.mma(acc, p, sb, { barrier = done, accumulate = false })
            tc.barrier_wait(done)
            o:store(tc.async_load_tmem(acc))
         end)
         same(a:totable(), out)
      end)

      it("of " .. M .. " rows takes a bias, a relu and reductions", function()
         local bias
         local sums
         local a, out = product(M, tc.f32, 1, function(t, o)
            bias = tc.iota({ 64 }, 0, tc.f32) * 0.125 - 4
            local v = tc.max(tc.async_load_tmem(t) + bias, 0)
            sums = v:reduce("max", 1)
            o:store((v - sums:broadcast({ M, 64 }, 1) + v:reduce("min", 0)):astype(tc.f16))
         end)
         local v = a:totable()
         for i = 1, M do
            for j = 1, 64 do
               v[i][j] = math.max(v[i][j] + (j - 1) * 0.125 - 4, 0)
            end
         end
         same(map2(M, 64, function(i, j)
            local most, least = -math.huge, math.huge
            for n = 1, 64 do
               most = math.max(most, v[i][n])
            end
            for n = 1, M do
               least = math.min(least, v[n][j])
            end
            return v[i][j] - most + least
         end), out, function(y) return 2.0 ^ -19 + cases.half_ulp(tc.f16, y) end)
      end)
   end

   -- Loads and stores of one tile agree for every way that columns hold elements.
   for _, name in ipairs({ "f32", "i32", "f16", "bf16", "e4m3", "e5m2", "i8" }) do
      it("keeps " .. name .. " for roles of one to three warpgroups", function()
         for _, M in ipairs({ 128, 64 }) do
            for warpgroups = 1, 3 do
               local a, out = numbers({ M, 96 }, tc[name], 31), tc.zeros({ M, 96 }, tc[name])
               run("sm_100a", {}, { a, out }, function(x, o)
                  local t = tc.tmem({ M, 96 }, tc[name], tc[name].bits < 32 and { packed = true } or {})
                  tc.role({ name = "main", warpgroups = warpgroups })(function()
                     tc.async_store_tmem(t, x:load())
                     tc.commit_tmem()
                     o:store(tc.async_load_tmem(t))
                  end)
               end)
               same(a:totable(), out, 0, ("%d rows, %d warpgroups"):format(M, warpgroups))
            end
         end
      end)
   end

   it("that takes too many registers is refused with what would fit", function()
      local ok, message = pcall(run, "sm_100a", {}, { tc.zeros({ 128, 256 }, tc.f32) }, function(o)
         local acc = tc.tmem({ 128, 256 }, tc.f32)
         o:store(tc.async_load_tmem(acc))
      end)
      assert.is_false(ok)
      assert.matches("256 registers", message)
      assert.matches("128", message)
   end)
end)

describe("two stores of one role to the same elements", function()
   -- The value of tensor memory is stored by other threads than the constant before it.
   for _, where in ipairs { "GMEM", "SMEM" } do
      it("come in the order of the program in " .. where, function()
         local k = tc.kernel {
            name = "twice",
            args = { tc.gmem({ 128, 64 }, "f16"), tc.gmem({ 64, 128 }, "f16"), tc.gmem({ 128, 128 }, "f32") },
            body = function(a, b, out)
               local sa, sb = tc.smem({ 128, 64 }, "f16"), tc.smem({ 64, 128 }, "f16")
               local acc = tc.tmem({ 128, 128 }, "f32")
               local tile = where == "SMEM" and tc.smem({ 128, 128 }, "f32") or out
               local loaded, done = tc.barrier { num_arrivals = 2 }, tc.barrier { orders_tensor_core = true }
               tc.copy_gmem_to_smem(a, sa, loaded)
               tc.copy_gmem_to_smem(b, sb, loaded)
               tc.barrier_wait(loaded)
               tc.mma(acc, sa, sb, { barrier = done, accumulate = false })
               tc.barrier_wait(done)
               tile:store(3.0)
               tile:store(tc.async_load_tmem(acc))
               if where == "SMEM" then out:store(tile:load()) end
            end,
         }
         local a, b = tc.randn({ 128, 64 }, "f16", { seed = 1 }), tc.randn({ 64, 128 }, "f16", { seed = 2 })
         for _, target in ipairs { "sm_100a", "sm_90a" } do
            for _, mode in ipairs { "fast", "check", "random" } do
               local out = tc.zeros({ 128, 128 }, "f32")
               local report = k:emulate({ target = target, mode = mode }, a, b, out)
               assert.equal(0, #report.hazards, report:text())
               assert(tc.allclose(out, tc.reference.matmul(a, b), { rtol = 1e-4, atol = 1e-4 }))
            end
         end
      end)
   end

   -- A shift by one row: other threads store the rows that both views have.
   local shifts = {
      { "a constant", function(s, v)
         s:at(tc.ds(0, 64), tc.all):store(v)
         s:at(tc.ds(1, 64), tc.all):store(v * 2)
      end },
      { "the turn of a loop", function(s, v)
         tc.range(2, function(i) s:at(tc.ds(i, 64), tc.all):store(v + i) end)
      end },
   }
   for _, shift in ipairs(shifts) do
      it("of views that overlap, shifted by " .. shift[1] .. ", come in the order of the program", function()
         local k = tc.kernel {
            name = "shifted", args = { tc.gmem({ 64, 64 }, "f32"), tc.gmem({ 65, 64 }, "f32") },
            body = function(x, out)
               local s, v = tc.smem({ 65, 64 }, "f32", { swizzle = "none" }), x:load()
               shift[2](s, v)
               tc.commit_smem()
               tc.copy_smem_to_gmem(s, out)
               tc.wait_smem_to_gmem(0)
            end,
         }
         for _, target in ipairs { "sm_100a", "sm_90a" } do
            local out = tc.zeros({ 65, 64 }, "f32")
            local report = k:emulate({ target = target, mode = "check" }, tc.ones({ 64, 64 }, "f32"), out)
            assert.equal(0, #report.hazards, report:text())
            for row, values in ipairs(out:totable()) do assert.equal(row == 1 and 1 or 2, values[1]) end
         end
      end)
   end

   it("that are apart need no barrier, the slots of a ring neither", function()
      local k = tc.kernel {
         name = "apart",
         args = { tc.gmem({ 64, 64 }, "f32"), tc.gmem({ 128, 64 }, "f32"), tc.gmem({ 96, 64 }, "f32") },
         body = function(x, out, other)
            local v, w = x:load(), x:at(tc.ds(0, 48), tc.all):load()
            out:at(tc.ds(0, 64), tc.all):store(v)
            out:at(tc.ds(64, 64), tc.all):store(v)
            tc.range(8, function(i) out:tile({ i % 2, 0 }, { 64, 64 }):store(v) end)
            tc.range(8, function(i) other:tile({ i % 2, 0 }, { 48, 64 }):store(w) end)
         end,
      }
      assert.is_nil(k:ptx { target = "sm_100a" }:match "bar%.sync")
   end)

   it("of the same threads need no barrier", function()
      local k = tc.kernel {
         name = "same", args = { tc.gmem({ 128, 64 }, "f32"), tc.gmem({ 128, 64 }, "f32") },
         body = function(x, y)
            local v = x:load()
            y:store(v)
            y:store(v * 2)
         end,
      }
      assert.is_nil(k:ptx { target = "sm_100a" }:match "bar%.sync")
   end)
end)

describe("the PTX of an epilogue", function()
   it("is a load, a wait, conversions and 16-byte stores to addresses computed once", function()
      local k = tc.kernel({
         name = "epilogue", target = "sm_100a", args = {}, grid = { 1 }, grid_names = { "x" },
         body = function()
            local acc, out = tc.tmem({ 128, 128 }, tc.f32), tc.smem({ 2, 128, 64 }, tc.f16)
            for i = 0, 1 do
               out[i]:store(tc.async_load_tmem(acc:at(tc.all, tc.ds(64 * i, 64))):astype(tc.f16))
            end
         end,
      })
      local text = k:ptx({ target = "sm_100a" })
      local function count(pattern)
         return select(2, text:gsub(pattern, ""))
      end
      assert.equal(2, count("tcgen05%.ld%.sync%.aligned%.32x32b%.x64%.b32"))
      assert.equal(2, count("tcgen05%.wait::ld"))
      assert.equal(64, count("cvt%.rn%.f16x2%.f32"))
      assert.equal(16, count("st%.shared%.v4%.b32"))
      assert.equal(7, count("xor%.b32"))
   end)
end)
