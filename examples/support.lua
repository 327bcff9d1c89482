-- What the matmul examples share: sizes from the command line, random normal inputs, and the
-- comparison with a product computed in double precision.
local tc = require "tcmma"

local support = {}

-- True when the file that calls this is the program itself and was not loaded by another one.
function support.is_program()
   local source = debug.getinfo(2, "S").source
   return arg ~= nil and arg[0] ~= nil and source == "@" .. arg[0]
end

-- M, N and K from the command line, or the given defaults.
function support.sizes(M, N, K)
   return math.tointeger(arg[1] or M), math.tointeger(arg[2] or N), math.tointeger(arg[3] or K)
end

-- The target of kernels that need Blackwell. Where the current device is none, the emulator of one
-- becomes current.
function support.blackwell()
   local target = tc.device().target
   if target ~= "sm_100a" and target ~= "sm_103a" then
      tc.use "emulator:sm_100a"
      target = "sm_100a"
   end
   return target
end

-- Clusters of two for a kernel that walks over tiles: those of a B200's 148 SMs, fewer where there are
-- too few tiles for each to get two.
function support.clusters(tiles)
   return math.max(1, math.min(74, tiles // 2))
end

-- Runs kernel(a, b, [bias,] out) on random normal data and compares each element with the double
-- precision product. Returns a table: seconds, error (largest absolute), relative (root mean
-- square of the error over that of the result) and ok.
function support.check(kernel, M, N, K, options)
   options = options or {}
   local dtype = options.dtype or tc.float16
   local a = tc.randn({ M, K }, dtype, { seed = 1 })
   local b = tc.randn({ K, N }, dtype, { seed = 2 })
   local out = tc.empty({ M, N }, dtype)
   local bias = options.bias and tc.randn({ N }, tc.float32, { seed = 3 })
   local arrays = bias and { a, b, bias, out } or { a, b, out }
   kernel(table.unpack(arrays)) -- the first call compiles
   local start = tc.clock()
   kernel(table.unpack(arrays))
   tc.device():synchronize()
   local seconds = tc.clock() - start
   local expected = tc.reference.matmul(a, b, { bias = bias, relu = options.relu })
   local ok, report = tc.allclose(out, expected, { rtol = 2e-3, atol = 2e-2 })
   return { ok = ok, seconds = seconds, error = report.max_abs_error, relative = report.relative_rms }
end

local function duration(seconds)
   if seconds < 1e-3 then return ("%.1f us"):format(seconds * 1e6) end
   return ("%.1f ms"):format(seconds * 1e3)
end

-- Prints the outcome of support.check and ends the program with status 1 if it was wrong.
function support.report(name, M, N, K, result)
   print(("%-28s %dx%dx%d on %s: largest error %.2e, relative %.2e, %s: %s"):format(name, M, N, K,
      tc.device().name, result.error, result.relative, duration(result.seconds),
      result.ok and "correct" or "WRONG"))
   if not result.ok then os.exit(1) end
end

return support
