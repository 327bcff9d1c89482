-- Cases of fragments that run on the emulator and on a GPU alike, against values computed here in
-- doubles. Errors are bounded by what each operation promises; everything that is rounded correctly
-- has to be equal.
local assert = require "luassert"
local busted = require "busted"
local tc = require "tcmma"

local describe = busted.describe

local M = {}

local TARGETS = { "sm_90a", "sm_100a" }

-- Builds a kernel of one warpgroup (or what the body makes) and runs it: on the GPU M.gpu if there is
-- one, else on the emulator.
local function run(target, args, arrays, body, grid)
   target = M.gpu and M.gpu.target or target
   local described = {}
   for i, a in ipairs(arrays) do
      described[i] = tc.gmem(args[i] or a.shape, a.dtype)
   end
   local k = tc.kernel({
      name = "frag", target = target, args = described,
      grid = grid or { 1 }, grid_names = grid and { "y", "x" } or { "x" }, body = body,
   })
   if M.gpu then
      k(table.unpack(arrays))
   else
      k:emulate({ target = target }, table.unpack(arrays))
   end
   return k
end

local function flat(t)
   if type(t) ~= "table" then
      return { t }
   end
   local out = {}
   local function go(x)
      for _, v in ipairs(x) do
         if type(v) == "table" then
            go(v)
         else
            out[#out + 1] = v
         end
      end
   end
   go(t)
   return out
end

-- Elements of `t` as the type holds them: the conversions have a spec of their own.
local function held(values, dtype)
   return tc.from_table(values, dtype):totable()
end

-- Rounds a number to the type.
local function rounding(dtype)
   return function(x) return dtype:decode(dtype:encode(x)) end
end

local SIGNIFICAND = { float32 = 24, float16 = 11, bfloat16 = 8 }
local LEAST = { float32 = 2.0 ^ -126, float16 = 2.0 ^ -14, bfloat16 = 2.0 ^ -126 } -- normal

-- Half a unit in the last place at x. What is below the normal float32 may be flushed.
local function half_ulp(dtype, x)
   local least = LEAST[dtype.name]
   if math.abs(x) < least then return dtype.name == "float16" and 2.0 ^ -25 or least end
   return 2.0 ^ -SIGNIFICAND[dtype.name] * math.abs(x)
end

-- `allowed`: nothing or 0 for equal values, or a function of the expected value and its position that
-- gives the largest absolute error.
local function same(expected, array, allowed, what)
   local e, g = flat(expected), flat(array:totable())
   assert.equal(#e, #g, what)
   for i = 1, #e do
      local x, y = e[i], g[i]
      local close = x == y or (x ~= x and y ~= y)
         or (type(allowed) == "function" and math.abs(x - y) <= allowed(x, i))
      if not close then
         error(("%s: element %d is %s, expected %s"):format(what or "", i, tostring(y), tostring(x)), 2)
      end
   end
end

local function map2(rows, columns, f)
   local t = {}
   for i = 1, rows do
      t[i] = {}
      for j = 1, columns do
         t[i][j] = f(i, j)
      end
   end
   return t
end

local function numbers(shape, dtype, seed)
   if dtype.kind ~= "int" and dtype.kind ~= "uint" then
      return tc.randn(shape, dtype, { seed = seed })
   end
   local low, n = dtype.kind == "int" and -50 or 0, 0
   local function fill(d)
      if d > #shape then
         n = n + 1
         return (n * 37 + seed * 11) % 101 + low
      end
      local t = {}
      for i = 1, shape[d] do
         t[i] = fill(d + 1)
      end
      return t
   end
   return tc.from_table(fill(1), dtype)
end

-- Defines the cases with `it`.
function M.define(it)
   describe("a tile of GMEM", function()
      local shapes = { { 64, 64 }, { 7, 13 }, { 1, 40 }, { 100, 3 }, { 128, 1 }, { 33, 72 }, { 50 }, { 4096 }, { 1 } }
      for _, target in ipairs(TARGETS) do
         for _, name in ipairs({ "f32", "f16", "bf16", "i32", "u8", "i8", "e4m3", "e5m2" }) do
            it("goes through registers unchanged: " .. name .. " on " .. target, function()
               for i, shape in ipairs(shapes) do
                  local a = numbers(shape, tc[name], i)
                  local out = tc.zeros(shape, tc[name])
                  run(target, {}, { a, out }, function(x, o)
                     o:store(x:load())
                  end)
                  same(a:totable(), out, 0, name .. " " .. table.concat(shape, "x"))
               end
            end)
         end
      end

      it("that overhangs is 0 outside when loaded", function()
         for _, name in ipairs({ "f32", "f16", "u8" }) do
            local a = numbers({ 50, 70 }, tc[name], 3)
            local out = tc.ones({ 64, 96 }, tc[name])
            run("sm_90a", {}, { a, out }, function(x, o)
               local at = { tc.axis_index "y", tc.axis_index "x" }
               o:tile(at, { 32, 32 }):store(x:tile(at, { 32, 32 }):load())
            end, { 2, 3 })
            local v = a:totable()
            same(map2(64, 96, function(i, j)
               return v[i] and v[i][j] or 0
            end), out, 0, name)
         end
      end)

      it("that overhangs is clipped when stored", function()
         for _, shape in ipairs({ { 50, 72 }, { 50, 70 }, { 33, 65 } }) do
            local a = numbers({ 64, 96 }, tc.f16, 4)
            local out = tc.from_table(map2(shape[1], shape[2], function() return 7 end), tc.f16)
            run("sm_100a", {}, { a, out }, function(x, o)
               local at = { tc.axis_index "y", tc.axis_index "x" }
               o:tile(at, { 32, 32 }):store(x:tile(at, { 32, 32 }):load())
            end, { 2, 3 })
            local v = a:totable()
            same(map2(shape[1], shape[2], function(i, j)
               return v[i][j]
            end), out, 0, table.concat(shape, "x"))
         end
      end)

      it("may have named dimensions", function()
         local a, out = numbers({ 45, 37 }, tc.f32, 5), tc.zeros({ 45, 37 }, tc.f32)
         run("sm_90a", { { "M", "N" }, { "M", "N" } }, { a, out }, function(x, o)
            local at = { tc.axis_index "y", tc.axis_index "x" }
            o:tile(at, { 32, 16 }):store(x:tile(at, { 32, 16 }):load())
         end, { 2, 3 })
         same(a:totable(), out)
      end)

      it("is transposed by its view", function()
         local a, out = numbers({ 40, 56 }, tc.f16, 6), tc.zeros({ 56, 40 }, tc.f16)
         run("sm_90a", {}, { a, out }, function(x, o)
            o:store(x:T():load())
         end)
         local v = a:totable()
         same(map2(56, 40, function(i, j)
            return v[j][i]
         end), out)
      end)

      it("may be a row or a column of a matrix", function()
         local a = numbers({ 20, 24 }, tc.f32, 7)
         local row, column = tc.zeros({ 24 }, tc.f32), tc.zeros({ 20 }, tc.f32)
         run("sm_90a", {}, { a, row, column }, function(x, r, c)
            r:store(x[3]:load())
            c:store(x:at(tc.all, 5):load())
         end)
         local v = a:totable()
         same(v[4], row)
         local expected = {}
         for i = 1, 20 do
            expected[i] = v[i][6]
         end
         same(expected, column)
      end)
   end)

   -- TMA knows the swizzled image too: what registers store, TMA must find, and the other way round.
   describe("a tile of SMEM", function()
      local cases = {}
      for _, name in ipairs({ "f32", "f16", "bf16", "u8" }) do
         local bytes = tc[name].bits // 8
         for _, swizzle in ipairs({ "none", 32, 64, 128 }) do
            local width = swizzle == "none" and 48 or 2 * swizzle // bytes
            cases[#cases + 1] = { name = name, swizzle = swizzle, rows = 64, columns = width }
         end
      end
      cases[#cases + 1] = { name = "f16", swizzle = 128, rows = 128, columns = 64 }
      cases[#cases + 1] = { name = "f16", swizzle = 128, rows = 24, columns = 192 }

      for _, c in ipairs(cases) do
         local title = ("%s %dx%d, swizzle %s"):format(c.name, c.rows, c.columns, c.swizzle)
         local dtype, shape = tc[c.name], { c.rows, c.columns }
         it("is stored as TMA reads it: " .. title, function()
            for _, transposed in ipairs({ false, true }) do
               local a = numbers(transposed and { c.columns, c.rows } or shape, dtype, 8)
               local out = tc.zeros(shape, dtype)
               run("sm_100a", {}, { a, out }, function(x, o)
                  local s = tc.smem(shape, dtype, { swizzle = c.swizzle });
                  (transposed and s:T() or s):store(x:load())
                  tc.commit_smem()
                  tc.copy_smem_to_gmem(s, o)
                  tc.wait_smem_to_gmem(0)
               end)
               local v = a:totable()
               same(map2(c.rows, c.columns, function(i, j)
                  return transposed and v[j][i] or v[i][j]
               end), out, 0, title .. (transposed and " transposed" or ""))
            end
         end)
         it("is loaded as TMA wrote it: " .. title, function()
            for _, transposed in ipairs({ false, true }) do
               local a = numbers(shape, dtype, 9)
               local out = tc.zeros(transposed and { c.columns, c.rows } or shape, dtype)
               run("sm_90a", {}, { a, out }, function(x, o)
                  local s = tc.smem(shape, dtype, { swizzle = c.swizzle })
                  local full = tc.barrier({})
                  tc.copy_gmem_to_smem(x, s, full)
                  tc.barrier_wait(full)
                  o:store((transposed and s:T() or s):load())
               end)
               local v = a:totable()
               same(transposed and map2(c.columns, c.rows, function(i, j)
                  return v[j][i]
               end) or v, out, 0, title .. (transposed and " transposed" or ""))
            end
         end)
      end

      it("may be sliced, and its slot recorded", function()
         local a, out = numbers({ 3, 64, 128 }, tc.f16, 10), tc.zeros({ 3, 32, 64 }, tc.f16)
         run("sm_90a", {}, { a, out }, function(x, o)
            local s = tc.smem({ 3, 64, 128 }, tc.f16)
            tc.range(3, function(i)
               s[i]:store(x[i]:load())
            end)
            tc.commit_smem()
            tc.range(3, function(i)
               o[i]:store(s:at(i, tc.ds(8, 32), tc.ds(64, 64)):load())
            end)
         end)
         local v, expected = a:totable(), {}
         for n = 1, 3 do
            expected[n] = map2(32, 64, function(i, j)
               return v[n][i + 8][j + 64]
            end)
         end
         same(expected, out)
      end)

      it("shows its role what it stored", function()
         local a, out = numbers({ 64, 64 }, tc.f32, 30), tc.zeros({ 64, 64 }, tc.f32)
         run("sm_90a", {}, { a, out }, function(x, o)
            local s, v = tc.smem({ 64, 64 }, tc.f32), tc.var(x:load())
            tc.range(3, function()
               s:T():store(v:get())
               v:set(s:load())
            end)
            o:store(v:get())
         end)
         local v = a:totable()
         same(map2(64, 64, function(i, j)
            return v[j][i]
         end), out)
      end)

      it("may be a vector", function()
         local a, out = numbers({ 100 }, tc.f32, 11), tc.zeros({ 40 }, tc.f32)
         run("sm_90a", {}, { a, out }, function(x, o)
            local s = tc.smem({ 100 }, tc.f32)
            s:store(x:load())
            tc.commit_smem()
            o:store(s:at(tc.ds(20, 40)):load())
         end)
         same(table.move(a:totable(), 21, 60, 1, {}), out)
      end)
   end)

   describe("arithmetic on fragments", function()
      local ROWS, COLUMNS = 16, 40
      -- What the operations promise: the relative error of ex2.approx is 2^-22, of rsqrt.approx 2^-22.9, of
      -- tanh.approx 2^-11; lg2.approx has an absolute error of 2^-22 in (0.5, 2) and a relative one of 2^-22
      -- elsewhere; of / the error is 2 ulp (none by a constant power of two), of sqrt.approx 2^-23. The rest is
      -- rounded correctly, once. `error` is what comes before the last rounding.
      local function scaled(x, e) return e * math.abs(x) end
      local function log2_error(x, y) return x > 0.5 and x < 2 and 2.0 ^ -22 or scaled(y, 2.0 ^ -22) end
      local function tanh(x)
         if math.abs(x) < 1e-3 then return x - x ^ 3 / 3 end
         local e = math.exp(-2 * math.abs(x))
         return (x < 0 and -1 or 1) * (1 - e) / (1 + e)
      end
      local unary = {
         { "exp2", function(x) return tc.exp2(x) end, function(x) return 2.0 ^ x end,
            function(_, y) return scaled(y, 2.0 ^ -22) end },
         -- x * log2 e is rounded: an error of the exponent.
         { "exp", function(x) return tc.exp(x) end, math.exp,
            function(x, y) return scaled(y, 2.0 ^ -22 + math.abs(x) * 2.0 ^ -23) end },
         { "abs", function(x) return tc.abs(x) end, math.abs },
         { "neg", function(x) return -x end, function(x) return -x end },
         { "tanh", function(x) return tc.tanh(x) end, tanh, function(_, y) return scaled(y, 2.0 ^ -11) end },
         { "log2", function(x) return tc.log2(tc.abs(x)) end, function(x) return math.log(math.abs(x), 2) end,
            function(x, y) return log2_error(math.abs(x), y) end },
         -- The same times ln 2, which is rounded as a constant and as a product.
         { "log", function(x) return tc.log(tc.abs(x)) end, function(x) return math.log(math.abs(x)) end,
            function(x, y)
               return log2_error(math.abs(x), y / math.log(2)) * math.log(2) + scaled(y, 2.0 ^ -23)
            end },
         { "sqrt", function(x) return tc.sqrt(tc.abs(x)) end, function(x) return math.sqrt(math.abs(x)) end,
            function(_, y) return scaled(y, 2.0 ^ -23) end },
         { "rsqrt", function(x) return tc.rsqrt(tc.abs(x)) end, function(x) return 1 / math.sqrt(math.abs(x)) end,
            function(_, y) return scaled(y, 2.0 ^ -22.9) end },
      }
      -- The reference gets `r`, which rounds to the type: every operation does.
      local binary = {
         { "+", function(x, y) return x + y end },
         { "-", function(x, y) return x - y end },
         { "*", function(x, y) return x * y end },
         { "/", function(x, y) return x / y end, error = 2.0 ^ -22 },
         { "max", function(x, y) return tc.max(x, y) end, function(x, y) return math.max(x, y) end },
         { "min", function(x, y) return tc.min(x, y) end, function(x, y) return math.min(x, y) end },
         { "where", function(x, y) return tc.where(x:lt(y), x, y * 2) end, function(x, y)
            return x < y and x or y * 2
         end },
         { "scalars", function(x, y) return 3 - x * 2 + y / 4 end, function(x, y, r)
            return r(r(3 - r(x * 2)) + r(y / 4))
         end },
         { "fma", function(x, y) return tc.fma(x, y, x) end, function(x, y) return x * y + x end },
      }

      -- Normal numbers over 24 powers of two, and around 1, where logarithms are small.
      local function wide(dtype, seed)
         local values = tc.randn({ ROWS * COLUMNS }, tc.f64, { seed = seed }):totable()
         for i, x in ipairs(values) do
            values[i] = i % 5 == 0 and 1 + x * 2.0 ^ -(i % 11) or x * 2.0 ^ (i % 25 - 12)
         end
         return tc.from_table(values, dtype, { ROWS, COLUMNS })
      end

      for _, name in ipairs({ "f32", "f16", "bf16" }) do
         local dtype = tc[name]
         local r = rounding(dtype)
         for _, op in ipairs(unary) do
            it(op[1] .. " of " .. name, function()
               local a, out = wide(dtype, 12), tc.zeros({ ROWS, COLUMNS }, dtype)
               run("sm_90a", {}, { a, out }, function(x, o)
                  o:store(op[2](x:load()))
               end)
               local v = a:totable()
               local x = flat(v)
               local exact = map2(ROWS, COLUMNS, function(i, j)
                  local y = op[3](v[i][j])
                  return math.abs(r(y)) == math.huge and r(y) or y
               end)
               if not op[4] then
                  return same(map2(ROWS, COLUMNS, function(i, j) return r(exact[i][j]) end), out, 0, op[1])
               end
               same(exact, out, function(y, i) return op[4](x[i], y) + half_ulp(dtype, y) end, op[1])
            end)
         end
         for _, op in ipairs(binary) do
            it(op[1] .. " of " .. name, function()
               local a, b = wide(dtype, 13), wide(dtype, 14)
               local out = tc.zeros({ ROWS, COLUMNS }, dtype)
               run("sm_100a", {}, { a, b, out }, function(x, y, o)
                  o:store(op[2](x:load(), y:load()))
               end)
               local v, w = a:totable(), b:totable()
               local exact = map2(ROWS, COLUMNS, function(i, j) return (op[3] or op[2])(v[i][j], w[i][j], r) end)
               -- In doubles x * y + x of float32 is rounded already: the second rounding can go the other way.
               if op[1] == "fma" and name == "f32" then
                  return same(exact, out, function(y) return half_ulp(dtype, y) * (1 + 2.0 ^ -20) end, op[1])
               end
               if op.error then
                  return same(exact, out, function(y) return scaled(y, op.error) + half_ulp(dtype, y) end, op[1])
               end
               same(map2(ROWS, COLUMNS, function(i, j) return r(exact[i][j]) end), out, 0, op[1])
            end)
         end
      end

      local integers = {
         { "+", function(x, y) return x + y end },
         { "-", function(x, y) return x - y end },
         { "*", function(x, y) return x * y end },
         { "&", function(x, y) return x & y end },
         { "|", function(x, y) return x | y end },
         { "~", function(x, y) return x ~ y end },
         { "<<", function(x) return x << 3 end },
         { ">>", function(x) return x >> 3 end, function(x) return x // 8 end },
         { "// 8", function(x) return x // 8 end },
         { "% 8", function(x) return x % 8 end },
         { "// 7", function(x) return x // 7 end },
         { "% 7", function(x) return x % 7 end },
         { "// -3", function(x) return x // -3 end },
         { "% -3", function(x) return x % -3 end },
         { "100 //", function(x) return 100 // (x | 1) end },
         { "//", function(x, y) return x // (y | 1) end },
         { "%", function(x, y) return x % (y | 1) end },
         { "max", function(x, y) return tc.max(x, y) end, math.max },
         { "min", function(x, y) return tc.min(x, y) end, math.min },
         { "where", function(x, y) return tc.where(x:ge(y), x, y) end, math.max },
      }
      for _, op in ipairs(integers) do
         it(op[1] .. " of i32", function()
            local a, b = numbers({ ROWS, COLUMNS }, tc.i32, 15), numbers({ ROWS, COLUMNS }, tc.i32, 16)
            local out = tc.zeros({ ROWS, COLUMNS }, tc.i32)
            run("sm_90a", {}, { a, b, out }, function(x, y, o)
               o:store(op[2](x:load(), y:load()))
            end)
            local v, w = a:totable(), b:totable()
            same(map2(ROWS, COLUMNS, function(i, j)
               return (op[3] or op[2])(v[i][j], w[i][j])
            end), out, 0, op[1])
         end)
      end

      it("broadcasts vectors along either axis", function()
         for _, name in ipairs({ "f32", "f16" }) do
            local dtype = tc[name]
            local a, row = numbers({ 24, 40 }, dtype, 17), numbers({ 40 }, dtype, 18)
            local column = numbers({ 24 }, dtype, 19)
            local out = tc.zeros({ 24, 40 }, dtype)
            run("sm_90a", {}, { a, row, column, out }, function(x, r, c, o)
               o:store(x:load() + r:load() + c:load():broadcast({ 24, 40 }, 1))
            end)
            local v, r, c, round = a:totable(), row:totable(), column:totable(), rounding(dtype)
            same(map2(24, 40, function(i, j)
               return round(round(v[i][j] + r[j]) + c[i])
            end), out, 0, name)
         end
      end)

      it("makes an outer product of two vectors", function()
         local a, b, out = numbers({ 24 }, tc.f16, 20), numbers({ 40 }, tc.f16, 21), tc.zeros({ 24, 40 }, tc.f16)
         run("sm_90a", {}, { a, b, out }, function(x, y, o)
            o:store(x:load():broadcast({ 24, 40 }, 1) * y:load():broadcast({ 24, 40 }, 0))
         end)
         local v, w, r = a:totable(), b:totable(), rounding(tc.f16)
         same(map2(24, 40, function(i, j)
            return r(v[i] * w[j])
         end), out)
      end)

      it("uses one vector along both axes", function()
         local a, out = numbers({ 40 }, tc.f32, 22), tc.zeros({ 40, 40 }, tc.f32)
         run("sm_90a", {}, { a, out }, function(x, o)
            local v = x:load()
            o:store(v:broadcast({ 40, 40 }, 1) - v:broadcast({ 40, 40 }, 0))
         end)
         local v, r = a:totable(), rounding(tc.f32)
         same(map2(40, 40, function(i, j)
            return r(v[i] - v[j])
         end), out)
      end)

      it("knows the index of an element", function()
         local out, line = tc.zeros({ 30, 20 }, tc.i32), tc.zeros({ 50 }, tc.f16)
         run("sm_90a", {}, { out, line }, function(o, l)
            o:store(tc.iota({ 30, 20 }, 0) * 100 + tc.iota({ 30, 20 }, 1))
            l:store(tc.iota({ 50 }, 0, tc.f16))
         end)
         same(map2(30, 20, function(i, j)
            return (i - 1) * 100 + j - 1
         end), out)
         local expected = {}
         for i = 1, 50 do
            expected[i] = i - 1
         end
         same(expected, line)
      end)

      it("stores one value everywhere", function()
         local out, half = tc.zeros({ 30, 20 }, tc.f32), tc.zeros({ 30, 20 }, tc.f16)
         run("sm_90a", {}, { out, half }, function(o, h)
            o:store(tc.full({ 30, 20 }, 2.5, tc.f32))
            h:store(tc.full({ 30, 20 }, tc.axis_index "x" + 3, tc.f16))
         end)
         same(map2(30, 20, function() return 2.5 end), out)
         same(map2(30, 20, function() return 3 end), half)
      end)
   end)

   describe("astype", function()
      local names = { "f32", "f16", "bf16", "e4m3", "e5m2", "i32", "u32", "i8", "u8" }
      for _, from in ipairs(names) do
         it("from " .. from, function()
            local values = {}
            for i = 1, 240 do
               values[i] = (from:sub(1, 1) == "u" and 0 or -60) + (i * 7) % 121 + (i % 8) / 8
            end
            if from:match("^[iu]") then
               for i, x in ipairs(values) do
                  values[i] = math.floor(x)
               end
            end
            local a = tc.from_table(values, tc[from])
            local source = a:totable()
            for _, to in ipairs(names) do
               if to ~= from then
                  local out = tc.zeros({ 240 }, tc[to])
                  run("sm_90a", {}, { a, out }, function(x, o)
                     o:store(x:load():astype(tc[to]))
                  end)
                  local expected = {}
                  for i, x in ipairs(source) do
                     if to:match("^[iu]") then
                        x = x < 0 and math.ceil(x) or math.floor(x)
                        if to:match("^u") and x < 0 then
                           x = from:match("^i") and x + 2.0 ^ tc[to].bits or 0
                        end
                     end
                     expected[i] = x
                  end
                  same(held(expected, tc[to]), out, 0, from .. " to " .. to)
               end
            end
         end)
      end
   end)

   describe("reduce", function()
      local shapes = { { 64, 32 }, { 24, 40 }, { 128, 96 }, { 3, 200 }, { 200, 3 }, { 1, 64 }, { 96, 1 },
         { 1, 1032 }, { 2, 600 } }
      local ops = {
         sum = { 0, function(a, b) return a + b end },
         max = { -math.huge, math.max },
         min = { math.huge, math.min },
         absmax = { 0, function(a, b) return math.max(a, math.abs(b)) end },
         absmin = { math.huge, function(a, b) return math.min(a, math.abs(b)) end },
      }
      for _, name in ipairs({ "f32", "f16", "i32" }) do
         for op, how in pairs(ops) do
            it(op .. " of " .. name, function()
               for _, shape in ipairs(shapes) do
                  local a = numbers(shape, tc[name], 23)
                  local rows, columns = tc.zeros({ shape[1] }, tc[name]), tc.zeros({ shape[2] }, tc[name])
                  run("sm_90a", {}, { a, rows, columns }, function(x, r, c)
                     local v = x:load()
                     r:store(v:reduce(op, 1))
                     c:store(v:reduce(op, 0))
                  end)
                  local v, r, c = a:totable(), {}, {}
                  local r_size, c_size = {}, {} -- sums of the magnitudes
                  for i = 1, shape[1] do
                     r[i], r_size[i] = how[1], 0
                     for j = 1, shape[2] do
                        local size = math.abs(v[i][j])
                        r[i], r_size[i] = how[2](r[i], v[i][j]), r_size[i] + size
                        c[j], c_size[j] = how[2](c[j] or how[1], v[i][j]), (c_size[j] or 0) + size
                     end
                  end
                  -- In float32, in any order, then rounded once.
                  local function allowed(sizes, n)
                     if op ~= "sum" or name == "i32" then return 0 end
                     return function(y, i) return (n - 1) * 2.0 ^ -24 * sizes[i] + half_ulp(tc[name], y) end
                  end
                  same(r, rows, allowed(r_size, shape[2]), "rows of " .. table.concat(shape, "x"))
                  same(c, columns, allowed(c_size, shape[1]), "columns of " .. table.concat(shape, "x"))
               end
            end)
         end
      end

      it("of a vector gives one value, which meets tiles again", function()
         local a, out = numbers({ 300 }, tc.f32, 24), tc.zeros({ 300 }, tc.f32)
         run("sm_90a", {}, { a, out }, function(x, o)
            local v = x:load()
            o:store(v - v:reduce("max", 0))
         end)
         local v = a:totable()
         local most, r = math.max(table.unpack(v)), rounding(tc.f32)
         for i = 1, 300 do
            v[i] = r(v[i] - most)
         end
         same(v, out)
      end)

      it("and broadcast make a softmax", function()
         local a, out = numbers({ 40, 72 }, tc.f32, 25), tc.zeros({ 40, 72 }, tc.f32)
         run("sm_90a", {}, { a, out }, function(x, o)
            local v = x:load()
            local e = tc.exp(v - v:reduce("max", 1):broadcast({ 40, 72 }, 1))
            o:store(e / e:reduce("sum", 1):broadcast({ 40, 72 }, 1))
         end)
         local v, exponents = a:totable(), {}
         for i = 1, 40 do
            local sum, most = 0, math.max(table.unpack(v[i]))
            for j = 1, 72 do
               exponents[(i - 1) * 72 + j] = most - v[i][j]
               sum = sum + math.exp(v[i][j])
            end
            for j = 1, 72 do
               v[i][j] = math.exp(v[i][j]) / sum
            end
         end
         -- Difference and exponent are rounded, ex2 is off by 2^-22 above and below the line, the sum by
         -- 72 roundings and the quotient by 2^-22.
         same(v, out, function(y, i) return y * (exponents[i] * 2.0 ^ -22 + 3 * 2.0 ^ -22 + 74 * 2.0 ^ -24) end)
      end)
   end)

   describe("roles of several warpgroups", function()
      local function shared(warpgroups, m, n)
         local a, out = numbers({ m, n }, tc.f32, 32), tc.zeros({ m, n }, tc.f32)
         local rows, columns = tc.zeros({ m }, tc.f32), tc.zeros({ n }, tc.f32)
         run("sm_90a", {}, { a, out, rows, columns }, function(x, o, r, c)
            tc.role({ name = "main", warpgroups = warpgroups })(function()
               local v = x:load()
               o:store(v)
               r:store(v:reduce("sum", 1))
               c:store(v:reduce("max", 0))
            end)
         end)
         local v, r, c, size = a:totable(), {}, {}, {}
         for i = 1, m do
            r[i], size[i] = 0, 0
            for j = 1, n do
               r[i], size[i] = r[i] + v[i][j], size[i] + math.abs(v[i][j])
               c[j] = math.max(c[j] or -math.huge, v[i][j])
            end
         end
         same(v, out)
         same(r, rows, function(_, i) return n * 2.0 ^ -24 * size[i] end)
         same(c, columns)
      end
      for warpgroups = 2, 4 do
         it("share a tile and its reductions: " .. warpgroups, function() shared(warpgroups, 100, 96) end)
      end

      -- 128 registers of each thread.
      it("share rows that are fewer than their warps", function()
         shared(1, 1, 16384)
         shared(2, 1, 4096)
         shared(2, 2, 3000)
         shared(3, 2, 1000)
      end)
   end)

   describe("a var of a fragment", function()
      it("persists over the turns of a loop", function()
         for _, name in ipairs({ "f32", "f16", "i32" }) do
            local a, out = numbers({ 6, 16, 24 }, tc[name], 26), tc.zeros({ 16, 24 }, tc[name])
            run("sm_90a", {}, { a, out }, function(x, o)
               local sum = tc.var(tc.full({ 16, 24 }, 0, tc[name]))
               tc.range(6, function(i)
                  sum:set(sum:get() + x[i]:load())
               end)
               o:store(sum:get())
            end)
            local v, r = a:totable(), name == "i32" and function(x) return x end or rounding(tc[name])
            same(map2(16, 24, function(i, j)
               local s = 0
               for n = 1, 6 do
                  s = r(s + v[n][i][j])
               end
               return s
            end), out, 0, name)
         end
      end)

      it("keeps the value that was read before it is set", function()
         local a, out, before = numbers({ 64 }, tc.f32, 27), tc.zeros({ 64 }, tc.f32), tc.zeros({ 64 }, tc.f32)
         run("sm_90a", {}, { a, out, before }, function(x, o, b)
            local v = tc.var(x:load())
            local old = v:get()
            v:set(old * 2)
            o:store(v:get())
            b:store(old)
         end)
         local v = a:totable()
         same(v, before)
         for i = 1, 64 do
            v[i] = 2 * v[i]
         end
         same(v, out)
      end)
   end)
end

M.run, M.flat, M.same, M.map2, M.numbers, M.half_ulp = run, flat, same, map2, numbers, half_ulp

return M
