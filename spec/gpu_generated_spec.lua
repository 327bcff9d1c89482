-- Needs a GPU: `make check-gpu`. Generated matmuls, with integers: the GPU's result has the bits of the
-- emulator's and is exact. With normal numbers: it has the bits of the emulator's with the adders of the
-- hardware; the count by types is printed, or written to generated-random.txt in the folder OUT.
-- GENERATED sets the kernels for each type, SEED draws others.
local tc = require "tcmma"
local generated = require "generated_kernels"
local runs = require "generated_run"

local gpu = tc.device(os.getenv "TCMMA_DEVICE" or "cuda:0")
local on_gpu = gpu and generated.targets[gpu.target] and it or pending

local PER_TYPE, SEED = tonumber(os.getenv "GENERATED" or 40), tonumber(os.getenv "SEED" or 1)

local function workers()
   local pipe = assert(io.popen "nproc")
   local count = pipe:read "n" or 1
   pipe:close()
   return math.min(count, 16)
end

-- Fails with the small script of the first kernel that fails.
local function report(o, message, failed)
   local function fails(t) return runs.fails_on_gpu(t, gpu) end
   local small = fails(o) and runs.shrink(o, fails, 24) or o
   error(("%d kernels fail; number %d: %s\n%s\nscript: %s"):format(failed, o.index, message,
      generated.describe(small), runs.save(small, message)), 0)
end

local function write(text)
   local folder = os.getenv "OUT"
   if not folder then return print(text) end
   local file = assert(io.open(folder .. "/generated-random.txt", "a"))
   file:write(text, "\n")
   file:close()
end

local function check(index)
   local target, list, counts = gpu.target, {}, {}
   local types = #generated.targets[target].types
   for i = 0, PER_TYPE - 1 do list[#list + 1] = generated.draw(target, i * types + index, SEED) end
   local results = runs.check_all(list, gpu, workers())
   local first, failed, different = nil, 0, 0
   for _, o in ipairs(list) do
      local result = results[o.index]
      local key = ("%s x %s into %s"):format(o.dtype, o.dtype_b, o.acc)
      local count = counts[key] or { agree = 0, kernels = 0, different = 0, elements = 0 }
      counts[key] = count
      if not result then
         failed = failed + 1
      elseif result.message then
         failed, first = failed + 1, first or o
      else
         count.kernels = count.kernels + 1
         if result.different == 0 then count.agree = count.agree + 1 end
         count.different = count.different + result.different
         count.elements = count.elements + result.elements
         different = different + result.different
      end
   end
   for key, count in pairs(counts) do
      write(("normal numbers, %s: %d of %d results agree bit for bit, %d of %d elements differ"):format(key,
         count.agree, count.kernels, count.different, count.elements))
   end
   if first then report(first, results[first.index].message, failed) end
   assert.equal(0, failed)
   assert.equal(0, different)
end

describe("generated matmuls on a GPU #gpu", function()
   local types = gpu and generated.targets[gpu.target] and generated.targets[gpu.target].types or { "f16" }
   for index, name in ipairs(types) do
      on_gpu(("of %s, set %d"):format(name, index), function() check(index - 1) end)
   end
end)
