-- Operations of the host on whole arrays, nanoseconds an element:
--   lua bench/arrays.lua [part of a name] [runs] [rows and columns]
-- Processor time of one core, the shortest of the runs.
local tc = require "tcmma"

local wanted, runs = arg and arg[1] or "", tonumber(arg and arg[2]) or 5
local size = tonumber(arg and arg[3]) or 4096

local function row(name, dtype, elements, f)
   if not (name .. " " .. dtype):find(wanted, 1, true) then return end
   local best = math.huge
   for _ = 1, runs do
      collectgarbage()
      local start = os.clock()
      local made = { f() }
      best = math.min(best, os.clock() - start)
      for _, array in ipairs(made) do
         if type(array) == "userdata" then array:free() end
      end
   end
   print(("%-34s %-8s %7.2f"):format(name, dtype, best / elements * 1e9))
end

local function operations(dtype)
   local shape, n = { size, size }, size * size
   local a = tc.randn(shape, dtype, { seed = 1 })
   local b = a:astype "f32"
   local function time(name, f) row(name, dtype, n, f) end

   time("randn", function() return tc.randn(shape, dtype, { seed = 1 }) end)
   time("rand", function() return tc.rand(shape, dtype, { seed = 1 }) end)
   time("randint", function() return tc.randint(shape, dtype, { seed = 1, low = -8, high = 8 }) end)
   time("zeros", function() return tc.zeros(shape, dtype) end)
   time("ones", function() return tc.ones(shape, dtype) end)
   time("arange", function() return tc.arange(n, dtype) end)
   time("copy", function() return a:copy() end)
   for _, to in ipairs { "f64", "f32", "f16", "bf16", "e4m3", "e2m3", "e2m1", "i32", "i8" } do
      if to ~= dtype then time("astype " .. to, function() return a:astype(to) end) end
   end
   time("sum", function() a:sum() end)
   time("max", function() a:max() end)
   time("equal", function() a:equal(a) end)
   time("allclose", function() tc.allclose(a, b) end)
   for _, format in ipairs { "mxfp8", "mxfp6", "mxfp4", "nvfp4" } do
      time("quantize " .. format, function() return tc.quantize(a, format) end)
   end
   time("quantize mxfp8, axis 0", function() return tc.quantize(a, "mxfp8", { axis = 0 }) end)
   local elements, scales = tc.quantize(a, "mxfp8")
   time("dequantize mxfp8", function() return tc.dequantize(elements, scales) end)
   time("sparsify", function() return tc.sparsify(a) end)
   local values, metadata = tc.sparsify(a)
   time("densify", function() return tc.densify(values, metadata) end)

   local small = tc.randn({ 512, 512 }, dtype, { seed = 2 })
   local list = small:totable()
   row("totable", dtype, 512 * 512, function() small:totable() end)
   row("from_table", dtype, 512 * 512, function() return tc.from_table(list, dtype) end)
   row("reference.matmul, a product", dtype, 512 ^ 3, function() return tc.reference.matmul(small, small) end)
end

for _, dtype in ipairs { "f32", "bf16", "f16", "e4m3" } do operations(dtype) end
