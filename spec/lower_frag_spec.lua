-- Fragments on the emulator, against values computed here in doubles.
local tc = require "tcmma"

local TARGETS = { "sm_90a", "sm_100a" }

-- Builds a kernel of one warpgroup (or what the body makes) and runs it.
local function run(target, args, arrays, body, grid)
   local described = {}
   for i, a in ipairs(arrays) do
      described[i] = tc.gmem(args[i] or a.shape, a.dtype)
   end
   local k = tc.kernel({
      name = "frag", target = target, args = described,
      grid = grid or { 1 }, grid_names = grid and { "y", "x" } or { "x" }, body = body,
   })
   k:emulate({ target = target }, table.unpack(arrays))
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

local function same(expected, array, relative, what)
   local e, g = flat(expected), flat(array:totable())
   assert.equal(#e, #g, what)
   for i = 1, #e do
      local x, y = e[i], g[i]
      local close = x == y or (x ~= x and y ~= y)
         or (type(x) == "number" and math.abs(x - y) <= (relative or 0) * math.max(math.abs(x), 1))
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
   local M, N = 16, 40
   local function pow2(x)
      return 2.0 ^ x
   end
   local unary = {
      { "exp2", function(x) return tc.exp2(x) end, pow2 },
      { "exp", function(x) return tc.exp(x) end, math.exp },
      { "abs", function(x) return tc.abs(x) end, math.abs },
      { "neg", function(x) return -x end, function(x) return -x end },
      { "tanh", function(x) return tc.tanh(x) end, function(x)
         local e = math.exp(2 * x)
         return (e - 1) / (e + 1)
      end, 1e-3 },
      { "log2", function(x) return tc.log2(tc.abs(x) + 1) end, function(x)
         return math.log(math.abs(x) + 1, 2)
      end, 2e-5 },
      { "log", function(x) return tc.log(tc.abs(x) + 1) end, function(x)
         return math.log(math.abs(x) + 1)
      end, 2e-5 },
      { "sqrt", function(x) return tc.sqrt(tc.abs(x)) end, function(x) return math.sqrt(math.abs(x)) end },
      { "rsqrt", function(x) return tc.rsqrt(tc.abs(x) + 1) end, function(x)
         return 1 / math.sqrt(math.abs(x) + 1)
      end },
   }
   local binary = {
      { "+", function(x, y) return x + y end },
      { "-", function(x, y) return x - y end },
      { "*", function(x, y) return x * y end },
      { "/", function(x, y) return x / (tc.abs(y) + 1) end, function(x, y) return x / (math.abs(y) + 1) end },
      { "max", function(x, y) return tc.max(x, y) end, math.max },
      { "min", function(x, y) return tc.min(x, y) end, math.min },
      { "where", function(x, y) return tc.where(x:lt(y), x, y * 2) end, function(x, y)
         return x < y and x or y * 2
      end },
      { "scalars", function(x, y) return 3 - x * 2 + y / 4 end },
      { "fma", function(x, y) return tc.fma(x, y, x) end, function(x, y) return x * y + x end },
   }
   local precision = { f32 = 2e-6, f16 = 3e-3, bf16 = 2.5e-2 }

   for _, name in ipairs({ "f32", "f16", "bf16" }) do
      local dtype = tc[name]
      for _, op in ipairs(unary) do
         it(op[1] .. " of " .. name, function()
            local a, out = numbers({ M, N }, dtype, 12), tc.zeros({ M, N }, dtype)
            run("sm_90a", {}, { a, out }, function(x, o)
               o:store(op[2](x:load()))
            end)
            local v = a:totable()
            same(map2(M, N, function(i, j)
               return op[3](v[i][j])
            end), out, math.max(precision[name], op[4] or 0), op[1])
         end)
      end
      for _, op in ipairs(binary) do
         it(op[1] .. " of " .. name, function()
            local a, b = numbers({ M, N }, dtype, 13), numbers({ M, N }, dtype, 14)
            local out = tc.zeros({ M, N }, dtype)
            run("sm_100a", {}, { a, b, out }, function(x, y, o)
               o:store(op[2](x:load(), y:load()))
            end)
            local v, w = a:totable(), b:totable()
            same(map2(M, N, function(i, j)
               return (op[3] or op[2])(v[i][j], w[i][j])
            end), out, 4 * precision[name], op[1])
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
      { "max", function(x, y) return tc.max(x, y) end, math.max },
      { "min", function(x, y) return tc.min(x, y) end, math.min },
      { "where", function(x, y) return tc.where(x:ge(y), x, y) end, math.max },
   }
   for _, op in ipairs(integers) do
      it(op[1] .. " of i32", function()
         local a, b = numbers({ M, N }, tc.i32, 15), numbers({ M, N }, tc.i32, 16)
         local out = tc.zeros({ M, N }, tc.i32)
         run("sm_90a", {}, { a, b, out }, function(x, y, o)
            o:store(op[2](x:load(), y:load()))
         end)
         local v, w = a:totable(), b:totable()
         same(map2(M, N, function(i, j)
            return (op[3] or op[2])(v[i][j], w[i][j])
         end), out, 0, op[1])
      end)
   end

   it("broadcasts vectors along either axis", function()
      for _, name in ipairs({ "f32", "f16" }) do
         local dtype = tc[name]
         local a, row, column = numbers({ 24, 40 }, dtype, 17), numbers({ 40 }, dtype, 18), numbers({ 24 }, dtype, 19)
         local out = tc.zeros({ 24, 40 }, dtype)
         run("sm_90a", {}, { a, row, column, out }, function(x, r, c, o)
            o:store(x:load() + r:load() + c:load():broadcast({ 24, 40 }, 1))
         end)
         local v, r, c = a:totable(), row:totable(), column:totable()
         same(map2(24, 40, function(i, j)
            return v[i][j] + r[j] + c[i]
         end), out, 4 * precision[name], name)
      end
   end)

   it("makes an outer product of two vectors", function()
      local a, b, out = numbers({ 24 }, tc.f16, 20), numbers({ 40 }, tc.f16, 21), tc.zeros({ 24, 40 }, tc.f16)
      run("sm_90a", {}, { a, b, out }, function(x, y, o)
         o:store(x:load():broadcast({ 24, 40 }, 1) * y:load():broadcast({ 24, 40 }, 0))
      end)
      local v, w = a:totable(), b:totable()
      same(map2(24, 40, function(i, j)
         return v[i] * w[j]
      end), out, 3e-3)
   end)

   it("uses one vector along both axes", function()
      local a, out = numbers({ 40 }, tc.f32, 22), tc.zeros({ 40, 40 }, tc.f32)
      run("sm_90a", {}, { a, out }, function(x, o)
         local v = x:load()
         o:store(v:broadcast({ 40, 40 }, 1) - v:broadcast({ 40, 40 }, 0))
      end)
      local v = a:totable()
      same(map2(40, 40, function(i, j)
         return v[i] - v[j]
      end), out, 1e-6)
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
   local shapes = { { 64, 32 }, { 24, 40 }, { 128, 96 }, { 3, 200 }, { 200, 3 }, { 1, 64 }, { 96, 1 } }
   local ops = {
      sum = { 0, function(a, b) return a + b end },
      max = { -math.huge, math.max },
      min = { math.huge, math.min },
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
               for i = 1, shape[1] do
                  r[i] = how[1]
                  for j = 1, shape[2] do
                     r[i] = how[2](r[i], v[i][j])
                     c[j] = how[2](c[j] or how[1], v[i][j])
                  end
               end
               local relative = name == "f16" and 2e-2 or name == "f32" and 1e-3 or 0
               relative = op == "sum" and relative or 0
               same(r, rows, relative, "rows of " .. table.concat(shape, "x"))
               same(c, columns, relative, "columns of " .. table.concat(shape, "x"))
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
      local most = math.max(table.unpack(v))
      for i = 1, 300 do
         v[i] = v[i] - most
      end
      same(v, out, 1e-6)
   end)

   it("and broadcast make a softmax", function()
      local a, out = numbers({ 40, 72 }, tc.f32, 25), tc.zeros({ 40, 72 }, tc.f32)
      run("sm_90a", {}, { a, out }, function(x, o)
         local v = x:load()
         local e = tc.exp(v - v:reduce("max", 1):broadcast({ 40, 72 }, 1))
         o:store(e / e:reduce("sum", 1):broadcast({ 40, 72 }, 1))
      end)
      local v = a:totable()
      for i = 1, 40 do
         local sum = 0
         for j = 1, 72 do
            sum = sum + math.exp(v[i][j])
         end
         for j = 1, 72 do
            v[i][j] = math.exp(v[i][j]) / sum
         end
      end
      same(v, out, 1e-5)
   end)
end)

describe("roles of several warpgroups", function()
   for warpgroups = 2, 4 do
      it("share a tile and its reductions: " .. warpgroups, function()
         local a, out = numbers({ 100, 96 }, tc.f32, 32), tc.zeros({ 100, 96 }, tc.f32)
         local rows, columns = tc.zeros({ 100 }, tc.f32), tc.zeros({ 96 }, tc.f32)
         run("sm_90a", {}, { a, out, rows, columns }, function(x, o, r, c)
            tc.role({ name = "main", warpgroups = warpgroups })(function()
               local v = x:load()
               o:store(v)
               r:store(v:reduce("sum", 1))
               c:store(v:reduce("max", 0))
            end)
         end)
         local v, r, c = a:totable(), {}, {}
         for i = 1, 100 do
            r[i] = 0
            for j = 1, 96 do
               r[i] = r[i] + v[i][j]
               c[j] = math.max(c[j] or -math.huge, v[i][j])
            end
         end
         same(v, out)
         same(r, rows, 1e-5)
         same(c, columns)
      end)
   end
end)

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
         local v = a:totable()
         same(map2(16, 24, function(i, j)
            local s = 0
            for n = 1, 6 do
               s = s + v[n][i][j]
            end
            return s
         end), out, name == "f16" and 1e-2 or 1e-4, name)
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
         end), out, 2e-3)
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
