-- Random expressions of recorded scalars, computed on the emulator, compared with the same expression
-- in Lua's integers, wrapped to 32 bits after every operation.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local EXPRESSIONS, X, Y = 60, { -5, 6 }, { 1, 6 } -- the ranges of x and y, half open

local function wrap(i)
   i = i & 0xffffffff
   return i >= 0x80000000 and i - 0x100000000 or i
end

local function minimum(a, b) return math.min(a, b) end
local function maximum(a, b) return math.max(a, b) end

-- What the operations are in Lua, and recorded.
local reference = {
   add = function(a, b) return wrap(a + b) end, sub = function(a, b) return wrap(a - b) end,
   mul = function(a, b) return wrap(a * b) end,
   div = function(a, b) return wrap(a // b) end, mod = function(a, b) return wrap(a % b) end,
   band = function(a, b) return a & b end, bor = function(a, b) return a | b end,
   xor = function(a, b) return a ~ b end, flip = function(a) return ~a end,
   neg = function(a) return wrap(-a) end, min = minimum, max = maximum,
   shl = function(a, n) return n > 31 and 0 or wrap(a << n) end,
   shr = function(a, n) return a // (1 << math.min(n, 31)) end,
   lt = function(a, b) return a < b end, ge = function(a, b) return a >= b end,
   eq = function(a, b) return a == b end,
   select = function(c, a, b) if c then return a end return b end,
}
local recorded = {
   add = function(a, b) return a + b end, sub = function(a, b) return a - b end,
   mul = function(a, b) return a * b end,
   div = function(a, b) return a // b end, mod = function(a, b) return a % b end,
   band = function(a, b) return a & b end, bor = function(a, b) return a | b end,
   xor = function(a, b) return a ~ b end, flip = function(a) return ~a end,
   neg = function(a) return -a end, min = tc.min, max = tc.max,
   shl = function(a, n) return a << n end, shr = function(a, n) return a >> n end,
   lt = function(a, b) return a:lt(b) end, ge = function(a, b) return a:ge(b) end,
   eq = function(a, b) return a:eq(b) end,
   select = function(c, a, b) return c:select(a, b) end,
}

local constants = { 0, 1, 2, 3, 7, 8, 31, 64, 1000, -1, -2, -3, -8, 0x7fffffff, -0x80000000, 0x12345678 }
local divisors = { 1, 2, 3, 4, 7, 16, 1000, -1, -2, -3, -8 }
local binary = { "add", "sub", "mul", "band", "bor", "xor", "min", "max" }

local function leaf()
   if math.random(3) == 1 then
      local c = constants[math.random(#constants)]
      return function(e) return e.zero + c end
   end
   local name = math.random(2) == 1 and "x" or "y"
   return function(e) return e[name] end
end

-- A function of {op=, x=, y=, zero=}.
local function expression(depth)
   if depth == 0 then return leaf() end
   local a, kind = expression(depth - 1), math.random(12)
   local b = expression(math.random(0, depth - 1))
   if kind <= 6 then
      local name = binary[math.random(#binary)]
      return function(e) return e.op[name](a(e), b(e)) end
   elseif kind <= 8 then
      local name, d = math.random(2) == 1 and "div" or "mod", divisors[math.random(#divisors)]
      return function(e) return e.op[name](a(e), d) end
   elseif kind == 9 then
      local name = math.random(2) == 1 and "div" or "mod"
      return function(e) return e.op[name](a(e), e.y) end -- y is positive
   elseif kind == 10 then
      local name, n = math.random(2) == 1 and "shl" or "shr", math.random(0, 33)
      return function(e) return e.op[name](a(e), n) end
   elseif kind == 11 then
      local name = math.random(2) == 1 and "neg" or "flip"
      return function(e) return e.op[name](a(e)) end
   end
   local name = ({ "lt", "ge", "eq" })[math.random(3)]
   local c = expression(depth - 1)
   return function(e) return e.op.select(e.op[name](a(e), b(e)), c(e), a(e)) end
end

local function check(target, seed)
   math.randomseed(seed)
   local list, texts = {}, {}
   for i = 1, EXPRESSIONS do list[i] = expression(math.random(1, 4)) end
   local columns, rows = Y[2] - Y[1], X[2] - X[1]
   local kernel = tc.kernel {
      name = "expressions", args = { tc.gmem({ EXPRESSIONS, rows, columns }, "i32") }, grid = { columns },
      grid_names = { "y" }, target = target,
      body = function(out)
         local y = tc.axis_index "y"
         local zero = y - y
         tc.range(X[1], X[2], 1, function(x)
            for i, f in ipairs(list) do
               local value = f { op = recorded, x = x, y = y + Y[1], zero = zero }
               texts[i] = tostring(value)
               out[i - 1][x - X[1]][y]:store(value)
            end
         end)
      end,
   }
   local out = tc.zeros({ EXPRESSIONS, rows, columns }, "i32")
   kernels.run(kernel, { target = target }, out)
   local got = out:totable()
   for i, f in ipairs(list) do
      for x = X[1], X[2] - 1 do
         for y = Y[1], Y[2] - 1 do
            local expected = f { op = reference, x = x, y = y, zero = 0 }
            local value = got[i][x - X[1] + 1][y - Y[1] + 1]
            if value ~= expected then
               error(("seed %d: %s is %d, expected %d, for x = %d, y = %d (axis y + %d)"):format(seed, texts[i], value,
                  expected, x, y, Y[1]))
            end
         end
      end
   end
end

describe("expressions of recorded scalars", function()
   for seed = 1, 12 do
      it("are those of Lua in 32 bits, seed " .. seed, function()
         check(seed % 2 == 0 and "sm_90a" or "sm_100a", seed)
      end)
   end
end)
