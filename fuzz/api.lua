-- Calls every public function and method with arguments that fit their signatures, and with hostile
-- ones: foreign userdata, wrong self, huge and negative numbers, NaN, closed objects, objects of other
-- kernels, errors and yields inside callbacks, coroutines.  An error is a good answer; a crash, a hang or
-- a message that says nothing is not.
-- Usage: lua5.4 fuzz/api.lua SECONDS SEED
--        lua5.4 fuzz/api.lua names         calls everything once, and prints what that was
package.path = arg[0]:match "^(.-)[^/]*$" .. "?.lua;" .. package.path
local tc = require "tcmma"
local documentation = require "tcmma.documentation"
local kernels = require "kernels"

local only_names = arg[1] == "names"
local seconds, seed = not only_names and tonumber(arg[1]) or 10, tonumber(arg[2] or 1)
math.randomseed(seed)
local random = math.random
local SLOWEST = 120 -- seconds of processor time that a call may take

-- Whatever is written, is written here.
local pipe = assert(io.popen "mktemp -d")
local folder = pipe:read "l"
pipe:close()
tc.config.cache_dir, tc.config.dump_dir = folder, folder
tc.config.max_instructions = 20000 -- a recorded loop may be endless
tc.config.emulator_memory = 16 << 20
_G.print = function() end

local function pick(list) return list[random(#list)] end

-- ---- values ------------------------------------------------------------------------------------

local pools = {} -- objects made on the way, by class; and all of them
local everything = {}
local function keep(value)
   local kind = type(value)
   if kind ~= "userdata" and kind ~= "table" and kind ~= "function" then return end
   local meta = kind == "userdata" and debug.getmetatable(value)
   local class = meta and meta.__name and meta.__name:match "^[^ ]*" or kind
   local pool = pools[class] or {}
   pools[class] = pool
   if #pool < 40 then pool[#pool + 1] = value else pool[random(40)] = value end
   if #everything < 300 then everything[#everything + 1] = value else everything[random(300)] = value end
end

local function pooled(class)
   local pool = pools[class]
   return pool and #pool > 0 and pick(pool) or nil
end

local value
local body_depth = 0
local act

-- A function for tc.range, tc.kernel and their like.
local function callback()
   return pick {
      function(...) for _, v in ipairs { ... } do keep(v) end end,
      function(...)
         for _, v in ipairs { ... } do keep(v) end
         if body_depth < 3 then
            body_depth = body_depth + 1
            for _ = 1, random(6) do act() end
            body_depth = body_depth - 1
         end
      end,
      function() error "raised in a callback" end,
      function() error { code = 1 } end,
      function() coroutine.yield(1) end,
      function() return value(3) end,
      function() collectgarbage() end,
      function() local k = pooled "tcmma.kernel" if k then k:close() end end,
   }
end

local names = { "f16", "float32", "bf16", "e4m3", "i32", "m", "n", "c", "load", "sum", "max", "emulator",
   "emulator:sm_90a",
   "nothing", "sm_90a", "sm_100a", "fast", "check", "random", "hardware", "record", "lower", "place", "SMEM", "TMEM",
   "{} {}", "scales", "half_lane", "none", "add", "replicated", "partitioned" }

local function shape()
   local t = {}
   for i = 1, random(0, 3) do t[i] = pick { 1, 2, 4, 8, 16, 32, 64, 64, 128, 128, 256, 3, 0, -1, 2 ^ 40 } end
   return t
end

local good_shapes = { { 128, 64 }, { 64, 128 }, { 128, 128 }, { 64, 64 }, { 2, 128, 64 }, { 4, 64, 64 },
   { 16 }, { 256, 256 },
   { 128, 32 }, { 8, 64 }, { 1 } }

local dtypes = { "f16", "f32", "bf16", "i32", "e4m3", "e5m2", "i8", "u8", "u32", "e2m1", "e3m2", "e8m0", "u2",
   "bool", "f64" }

local hostile = {
   function() return random(-3, 300) end,
   function() return pick { 0, 1, -1, 2 ^ 31, -2 ^ 31, 2 ^ 53, 2 ^ 63, math.maxinteger, math.mininteger, 0.5, 1 / 0,
         -1 / 0, 0 / 0 } end,
   function() return pick(names) end,
   function() return pick { "", ("x"):rep(5000), "\0\1\255", "%s%n", "{}{}{}" } end,
   function() return pick { true, false } end,
   function() return nil end,
   shape,
   function() return callback() end,
   function() return io.stdout end,
   function() return coroutine.create(callback()) end,
   function() return #everything > 0 and pick(everything) or nil end,
   function() return #everything > 0 and pick(everything) or nil end,
}

function value(depth)
   if depth > 0 and random(6) == 1 then
      local t = {}
      for _ = 1, random(0, 3) do t[pick(names)] = value(depth - 1) end
      for _ = 1, random(0, 3) do t[#t + 1] = value(depth - 1) end
      return t
   end
   return pick(hostile)()
end

-- ---- values that fit a type --------------------------------------------------------------------

local fitting

local function object(class)
   return function() return pooled(class) end
end

local by_type = {
   integer = function() return pick { 0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 5, 7 } end,
   number = function() return pick { 0, 1, 2.5, -3, 100 } end,
   boolean = function() return random(2) == 1 end,
   string = function() return pick(names) end,
   table = function() return value(2) end,
   any = function() return value(2) end,
   ["function"] = callback,
   DType = function() return pick(dtypes) end,
   Space = function() return pick { "SMEM", "TMEM", tc.SMEM, tc.TMEM } end,
   Ref = object "tcmma.ref", Barrier = object "tcmma.barrier", Scalar = object "tcmma.scalar",
   Fragment = object "tcmma.fragment", Slice = function()
      return random(2) == 1 and tc.all or pooled "tcmma.slice"
   end,
   ["integer[]"] = function() return random(4) == 1 and shape() or pick(good_shapes) end,
   ["tcmma.gmem[]"] = function()
      local list = {}
      for i = 1, random(0, 3) do list[i] = tc.gmem(pick(good_shapes), pick(dtypes)) end
      return list
   end,
   ["string[]"] = function() return pick { { "m" }, { "m", "n" }, { "c" }, {} } end,
   ["tcmma.array[]"] = function()
      local list = {}
      for i = 1, random(0, 3) do list[i] = pooled "tcmma.array" end
      return list
   end,
   ["table[]"] = function() return { {}, { tile = 1 }, { tile = 2 } } end,
   ["table<string, tcmma.array>"] = function() return { a = pooled "tcmma.array", [""] = pooled "tcmma.array" } end,
   ["table<string, string>"] = function() return { by = "me", ["\0"] = "\255" } end,
   MatmulOptions = function() return { transpose_b = random(2) == 1, epilogue = pick { "relu", "gelu" } } end,
   AutotuneOptions = function() return { repetitions = 1, warmup = 0, rounds = 0 } end,
}

-- Files that are there: good ones, cut ones, and what is none.
local files = {}
local function make_files()
   local function path(name)
      files[#files + 1] = folder .. "/" .. name
      return files[#files]
   end
   local array = tc.randn({ 8, 4 }, "f32")
   tc.npy.save(path "a.npy", array)
   tc.safetensors.save(path "a.safetensors", { a = array, b = tc.ones({ 3 }, "f16") }, { by = "me" })
   for i, name in ipairs { files[1], files[2] } do
      local source = assert(io.open(name, "rb"))
      local text = source:read "a"
      source:close()
      for cut = 1, 8 do
         local at = random(#text)
         local changed = cut <= 2 and text:sub(1, at) or text:sub(1, at - 1) .. string.char(random(0, 255))
            .. text:sub(at + 1)
         local file = assert(io.open(path(("cut%d_%d"):format(i, cut)), "wb"))
         file:write(changed)
         file:close()
      end
   end
   path "none/such"
end

local sources = {
   "extern \"C\" __global__ void f(float *p, int n) { if (threadIdx.x < n) p[threadIdx.x] = n; }",
   "template <class T> __global__ void g(T *p) { *p = 1; } template __global__ void g<int>(int *);",
   "__global__ void h() { asm volatile(\"nonsense;\"); }", "this is no source", "", "#error \"%s%n\"",
   "#include <mma.h>\n__global__ void m(float *p) { __shared__ float s[64]; s[threadIdx.x & 63] = 1;"
      .. " __syncthreads(); p[0] = s[1]; }",
}

-- What a parameter of that name takes, of any function.
local by_name = {
   path = function() return pick(files) end,
   source = function() return pick(sources) end,
   build = function()
      return pick { function() return function() end end, function() return pooled "tcmma.kernel" end, callback() }
   end,
   fn = callback,
   problem = function()
      return { M = pick { 64, 128, 100 }, N = pick { 64, 256, 24 }, K = pick { 64, 128 },
         dtype = pick { "f16", "bf16", "e4m3", "f32" }, target = pick { "sm_90a", "sm_100a" },
         transpose_b = random(2) == 1 }
   end,
   config = function() return pick { {}, { tile_m = 128 }, { stages = 2, tile_k = 64 }, { split_k = 2 } } end,
   object = function() return pick { { rule = 1 }, "x" } end,
}

-- Files are written into the folder only, and nothing is repeated for hours.
local function harmless(name, argument)
   if name == "path" and type(argument) == "string" and argument:sub(1, #folder) ~= folder then
      return folder .. "/" .. argument:sub(1, 100):gsub("[/%z]", "_")
   end
   if type(argument) == "table" and not getmetatable(argument) then
      for _, count in ipairs { "repetitions", "warmup", "rounds" } do
         local n = rawget(argument, count)
         if type(n) == "number" and n > 3 then argument[count] = 3 end
      end
   end
   return argument
end

local function split_union(text)
   local parts, depth, from = {}, 0, 1
   for at = 1, #text do
      local c = text:sub(at, at)
      if c:find "[%({<]" then depth = depth + 1 elseif c:find "[%)}>]" then depth = depth - 1 end
      if c == "|" and depth == 0 then
         parts[#parts + 1] = text:sub(from, at - 1)
         from = at + 1
      end
   end
   parts[#parts + 1] = text:sub(from)
   return parts
end

local parsed_fields = {}
local function fields(text)
   if not parsed_fields[text] then
      parsed_fields[text] = documentation.parse("f(" .. text:sub(2, -2) .. ")").parameters
   end
   return parsed_fields[text]
end

function fitting(text)
   local part = pick(split_union(text))
   if by_type[part] then return by_type[part]() end
   if part:find '^"' then return part:sub(2, -2) end
   if part:find "^{" then
      local t = {}
      for _, field in ipairs(fields(part)) do
         if field.name ~= "..." and (not field.optional or random(4) == 1) then
            t[field.name] = random(12) == 1 and value(1) or fitting(field.type)
         end
      end
      return t
   end
   local element = part:match "^%(?(.-)%)?%[%]$"
   if element then
      local t = {}
      for i = 1, random(0, 3) do t[i] = fitting(element) end
      return t
   end
   return pooled(part) or pooled("tcmma." .. part:lower())
end

-- ---- calls -------------------------------------------------------------------------------------

local entries, classes = {}, documentation.classes(documentation.all())
-- Those that take long are called less often.
local rare = { ["tcmma.cuda"] = 20, ["tcmma.matmul"] = 10, ["tcmma.matmul.tune"] = 20, ["tcmma.matmul.kernel"] = 10,
   ["tcmma.matmul.candidates"] = 5, ["tcmma.matmul.choose"] = 5, ["tcmma.kernel.sass"] = 10,
   ["tcmma.kernel.export"] = 4, ["tcmma.documentation"] = 10, ["tcmma.help"] = 10, ["tcmma.autotune"] = 3 }
local weights = { ["tcmma.record"] = 3, ["tcmma.kernel"] = 3, ["tcmma.range"] = 3, ["tcmma.when"] = 2,
   ["tcmma.mma"] = 6,
   ["tcmma.copy_gmem_to_smem"] = 6, ["tcmma.smem"] = 4, ["tcmma.tmem"] = 4, ["tcmma.barrier"] = 4 }
for _, entry in ipairs(documentation.all()) do
   if entry.name then
      entry.parsed = documentation.parse((documentation.split(entry)))
      for _ = 1, weights[entry.owner .. "." .. entry.name] or 1 do entries[#entries + 1] = entry end
   end
end

local calls, refused = 0, 0
local last = ""
local slowest, slowest_call = 0, ""

local function check_message(message)
   if type(message) ~= "string" then return end
   assert(#message > 0, last .. ": an error without text")
   assert(not message:find("internal error", 1, true), last .. ": " .. message)
   assert(not message:find "%.c:%d", last .. ": " .. message)
end

local function call(f, ...)
   local arguments = table.pack(...)
   local thread = coroutine.create(function() return f(table.unpack(arguments, 1, arguments.n)) end)
   local from = os.clock()
   local results = table.pack(coroutine.resume(thread))
   calls = calls + 1
   if os.clock() - from > slowest then slowest, slowest_call = os.clock() - from, last end
   assert(os.clock() - from < SLOWEST, last .. " took too long")
   if results[1] then
      for i = 2, results.n do keep(results[i]) end
   else
      refused = refused + 1
      check_message(results[2])
   end
   if random(20) == 1 then coroutine.close(thread) end
end

local function call_entry(entry)
   local arguments, n = {}, 0
   last = entry.owner .. "." .. entry.name
   if classes[entry.owner] then
      n = 1
      arguments[1] = pooled(entry.owner)
      if random(30) == 1 then arguments[1] = value(1) end
   end
   for _, p in ipairs(entry.parsed.parameters) do
      local count = p.name == "..." and random(0, 3) or 1
      if p.optional and random(3) ~= 1 then break end
      for _ = 1, count do
         n = n + 1
         local made = random(10) == 1 and value(2) or (by_name[p.name] or fitting)(p.type)
         arguments[n] = harmless(p.name, made)
      end
   end
   call(entry.value, table.unpack(arguments, 1, n))
end

local operators = {
   function(a, b) return a + b end, function(a, b) return a - b end, function(a, b) return a * b end,
   function(a, b) return a / b end, function(a, b) return a // b end, function(a, b) return a % b end,
   function(a, b) return a & b end, function(a, b) return a < b end, function(a, b) return a <= b end,
   function(a, b) return a == b end, function(a, b) return a .. b end, function(a) return -a end,
   function(a) return #a end, function(a) return ~a end, function(a, b) return a[b] end,
   function(a, b) a[b] = b end, function(a) return tostring(a) end, function(a, b) return a(b) end,
   function(a, b) return a << b end,
   function(a) for k, v in pairs(a) do keep(k) keep(v) end end,
}

-- ---- metamethods -------------------------------------------------------------------------------

local metamethods = {}
for class, meta in pairs(debug.getregistry()) do
   if type(class) == "string" and class:find "^tcmma%." and type(meta) == "table" and rawget(meta, "__name") then
      for name, method in pairs(meta) do
         if type(method) == "function" then
            metamethods[#metamethods + 1] = { class = class, name = name, method = method }
         end
      end
   end
end
table.sort(metamethods, function(a, b) return a.class .. a.name < b.class .. b.name end)

-- A table that claims to be of a class, or an object of it, or anything.
local function call_metamethod(m)
   last = m.class .. "." .. m.name
   local meta = debug.getregistry()[m.class]
   local self = pick { pooled(m.class), value(1), false }
   if random(4) == 1 then self = setmetatable({ value(1) }, meta) end
   call(m.method, self, value(1), value(1))
end

-- ---- kernels -----------------------------------------------------------------------------------

-- Each target has its own lowering; the assembler reads what came out.
local function compile(k)
   for _, target in ipairs { "sm_90a", "sm_100a", "sm_103a" } do
      last = "kernel.ptx for " .. target
      call(k.ptx, k, { target = target })
      if random(8) == 1 then
         last = "kernel.cubin for " .. target
         call(k.cubin, k, { target = target })
      end
   end
end

local function odd_kernel()
   last = "an odd kernel"
   if tc.recording() then pcall(function() tc.recording():close() end) end
   local ok, k = pcall(kernels.make, check_message)
   if not ok then
      check_message(k)
      return
   end
   compile(k)
   last = "an odd kernel"
   call(k.info, k)
   keep(k)
end

local function operand()
   if random(3) == 1 then return value(1) end
   return pooled(pick { "tcmma.scalar", "tcmma.fragment", "tcmma.ref", "tcmma.barrier", "tcmma.var", "tcmma.kernel" })
end

-- Runs a kernel or peeks, with arrays that fit.
local function run()
   local k = pooled "tcmma.kernel"
   if not k then return end
   last = "run"
   if random(2) == 1 then
      local r = pooled "tcmma.ref"
      if r then call(r.peek, r, { quiet = true, target = pick { "sm_100a", "sm_90a" } }) end
      return
   end
   call(function()
      local list = {}
      for shape_text, dtype in k:ops():gmatch "arg%d+: GMEM (%S+) (%([%d, ]+%))" do
         local sizes = {}
         for n in dtype:gmatch "%d+" do sizes[#sizes + 1] = math.tointeger(n) end
         list[#list + 1] = tc.zeros(sizes, shape_text)
      end
      if random(2) == 1 then return k(table.unpack(list)) end
      return k:emulate({ mode = pick { "fast", "check", "random" }, target = pick { "sm_90a", "sm_100a" } },
         table.unpack(list))
   end)
end

function act()
   local what = random(24)
   if what <= 16 then
      local entry = pick(entries)
      if random(rare[entry.owner .. "." .. entry.name] or 1) == 1 then call_entry(entry) end
   elseif what <= 18 then
      last = "operator"
      call(pick(operators), operand(), operand())
   elseif what == 19 then
      run()
   elseif what <= 21 then
      call_metamethod(pick(metamethods))
   elseif what == 22 then
      if body_depth == 0 then odd_kernel() end
   else
      local k = pooled "tcmma.kernel"
      if k and random(4) == 1 then compile(k) end
      if k then call(pick { k.finish, k.ops, k.ptx, k.close }, k) end
   end
end

-- Things that are worth having in the pools from the start.
local function open_recording()
   last = "open_recording"
   local ok, k, a = pcall(tc.record, { name = "f", args = { tc.gmem({ 256, 256 }, "f16") }, grid = { 2 },
      grid_names = { "m" } })
   if not ok then return end
   keep(k)
   keep(a)
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
      local good, made = pcall(make)
      if good then keep(made) end
   end
end

for _ = 1, 5 do
   keep(tc.zeros({ 4, 4 }, "f32"))
   keep(tc.device())
   keep(tc.device():stream())
   keep(tc.device():event())
   keep(tc.f16)
   keep(tc.ptx ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry f(.param .u64 p) { ret; }\n")
end

make_files()
open_recording()

-- The names as a user writes them, sorted: documented functions, and "class.__metamethod".
local function call_everything()
   local called = {}
   for _, entry in ipairs(entries) do
      call_entry(entry)
      called[#called + 1] = documentation.spelled(entry.owner, classes[entry.owner], entry.name)
   end
   for _, m in ipairs(metamethods) do
      call_metamethod(m)
      called[#called + 1] = m.class .. "." .. m.name
   end
   table.sort(called)
   for i, name in ipairs(called) do
      if name ~= called[i - 1] then io.write(name, "\n") end
   end
end

local function call_for(time)
   local stop_at, turns = os.time() + time, 0
   while os.time() < stop_at do
      turns = turns + 1
      if turns % 150 == 0 then
         for _, k in ipairs(pools["tcmma.kernel"] or {}) do
            if random(3) == 1 then pcall(k.close, k) end
         end
         if random(2) == 1 then pools["tcmma.ref"], everything = nil, {} end
         open_recording()
      end
      if turns % 500 == 0 then collectgarbage() end
      act()
   end
   io.write(("slowest call: %s, %.1f s\n"):format(slowest_call, slowest))
   io.write(("%d calls, %d refused, seed %d: no crash\n"):format(calls, refused, seed))
end

local ok, message = xpcall(only_names and call_everything or call_for, debug.traceback, seconds)
os.execute("rm -rf '" .. folder .. "'")
if not ok then error(message, 0) end
