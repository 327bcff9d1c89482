-- Calls every public function and method with random and hostile arguments: foreign userdata,
-- wrong self, huge and negative numbers, NaN, closed objects, errors inside callbacks, coroutines.
-- An error is a good answer; a crash, a hang or a message without text is not.
-- Usage: lua5.4 fuzz/api.lua SECONDS SEED
local tc = require "tcmma"

local seconds, seed = tonumber(arg[1] or 10), tonumber(arg[2] or 1)
math.randomseed(seed)
local random = math.random

local function pick(list) return list[random(#list)] end

local pool = {} -- objects made on the way, used again as arguments
local function keep(value)
   local kind = type(value)
   if kind == "userdata" or kind == "table" or kind == "function" then
      if #pool < 200 then pool[#pool + 1] = value else pool[random(200)] = value end
   end
end

local value
local function callback()
   return pick {
      function(...) for _, v in ipairs { ... } do keep(v) end end,
      function() error "raised in a callback" end,
      function() error { code = 1 } end,
      function() coroutine.yield(1) end,
      function() return value(3) end,
      function() collectgarbage() end,
   }
end

local names = { "f16", "float32", "bf16", "e4m3", "m", "n", "load", "sum", "max", "cuda:0", "emulator", "nothing" }
local keys = { "warps", "warpgroups", "name", "barrier", "accumulate", "num_arrivals", "num_barriers", "swizzle",
   "packed", "collective", "orders_tensor_core", "layout", "args", "grid", "grid_names", "body", "cluster", "seed",
   "dims", "box", "strides", "block", "smem", "parity", "rtol", "mode", "target", "x" }

local function shape()
   local t = {}
   for i = 1, random(0, 3) do t[i] = pick { 1, 2, 8, 16, 32, 64, 64, 128, 128, 256, 3, 0, -1, 2 ^ 40 } end
   return t
end

local makers = {
   function() return random(-3, 300) end,
   function() return pick { 0, 1, -1, 2 ^ 31, -2 ^ 31, 2 ^ 53, 2 ^ 63, math.maxinteger, math.mininteger, 0.5, 1 / 0,
         -1 / 0, 0 / 0 } end,
   function() return pick(names) end,
   function() return pick { "", ("x"):rep(5000), "\0\1\255", "%s%n" } end,
   function() return pick { true, false } end,
   function() return nil end,
   shape, shape,
   function() return callback() end,
   function() return io.stdout end,
   function() return coroutine.create(callback()) end,
   function() return pick { tc.float16, tc.float32, tc.bfloat16, tc.int8, tc.SMEM, tc.TMEM, tc.GMEM, tc.all } end,
   function() return #pool > 0 and pick(pool) or nil end,
   function() return #pool > 0 and pick(pool) or nil end,
   function() return #pool > 0 and pick(pool) or nil end,
}

function value(depth)
   if depth > 0 and random(6) == 1 then
      local t = {}
      for _ = 1, random(0, 4) do t[pick(keys)] = value(depth - 1) end
      for _ = 1, random(0, 3) do t[#t + 1] = value(depth - 1) end
      return t
   end
   return pick(makers)()
end

-- Things that are worth having in the pool from the start.
local function open_recording()
   local ok, k = pcall(tc.record, { name = "f", args = { tc.gmem({ 256, 256 }, "f16") }, grid = { 2 },
      grid_names = { "m" } })
   if ok then
      keep(k)
      for _, make in ipairs {
         function() return tc.smem({ 2, 128, 64 }, "f16") end,
         function() return tc.smem({ 64, 128 }, "f16") end,
         function() return tc.tmem({ 128, 128 }, "f32") end,
         function() return tc.barrier { num_barriers = 2 } end,
         function() return tc.barrier { orders_tensor_core = true } end,
         function() return tc.axis_index "m" end,
         function() return tc.role { name = "r", warps = 1 } end,
         function() return tc.var(0) end,
         function() return tc.full({ 128, 64 }, 0, "f32") end,
      } do
         local good, object = pcall(make)
         if good then keep(object) end
      end
   end
   return k
end

local skip = { kernel_loop = true }
local functions = {}
for name, f in pairs(tc) do
   if (type(f) == "function" or type(f) == "table") and not skip[name] then functions[#functions + 1] = name end
end
table.sort(functions)

local function call(f, ...)
   local arguments = table.pack(...)
   local thread = coroutine.create(function() return f(table.unpack(arguments, 1, arguments.n)) end)
   local results = table.pack(coroutine.resume(thread))
   if results[1] then
      for i = 2, results.n do keep(results[i]) end
   else
      local message = results[2]
      if type(message) == "string" then
         assert(#message > 0, "an error without text")
         assert(not message:find("internal error", 1, true), message)
         assert(not message:find("%.c:%d"), message)
      end
   end
end

local function method_names(object)
   local meta = debug.getmetatable(object)
   local list = {}
   if meta and type(meta.__index) == "table" then
      for name in pairs(meta.__index) do list[#list + 1] = name end
   end
   table.sort(list)
   return list, meta
end

local operators = {
   function(a, b) return a + b end, function(a, b) return a - b end, function(a, b) return a * b end,
   function(a, b) return a / b end, function(a, b) return a // b end, function(a, b) return a % b end,
   function(a, b) return a & b end, function(a, b) return a < b end, function(a, b) return a <= b end,
   function(a, b) return a == b end, function(a, b) return a .. b end, function(a) return -a end,
   function(a) return #a end, function(a) return ~a end, function(a, b) return a[b] end,
   function(a, b) a[b] = b end, function(a) return tostring(a) end, function(a, b) return a(b) end,
   function(a, b) return a << b end,
}

local stop_at, calls = os.time() + seconds, 0
local recording = open_recording()
while os.time() < stop_at do
   calls = calls + 1
   if calls % 200 == 0 then
      if recording and random(2) == 1 then call(recording.finish, recording) end
      recording = open_recording() or recording
      pool[random(math.max(1, #pool))] = nil
      local kept = {}
      for _, v in pairs(pool) do kept[#kept + 1] = v end
      pool = kept
   end
   if calls % 1000 == 0 then collectgarbage() end
   local what = random(10)
   if what <= 5 or #pool == 0 then
      local f = tc[pick(functions)]
      if type(f) == "function" then
         local a = {}
         local n = random(0, 5)
         for i = 1, n do a[i] = value(2) end
         call(f, table.unpack(a, 1, n))
      end
   elseif what <= 8 then
      local object = pick(pool)
      local list = type(object) == "userdata" and method_names(object) or {}
      if #list > 0 then
         local method = debug.getmetatable(object).__index[pick(list)]
         if type(method) == "function" then
            call(method, random(8) == 1 and value(1) or object, value(2), value(2), value(1))
         end
      end
   else
      local a, b = value(1), value(1)
      call(pick(operators), a, b)
   end
end
print(("%d calls, seed %d: no crash"):format(calls, seed))
