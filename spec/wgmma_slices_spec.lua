-- On sm_90a an mma with more columns than one instruction takes, or has registers for, is cut along N:
-- B stored (K, N) lies in panels of a swizzle's width, which no piece but the first of one may begin in.
-- Small integers, compared exactly with the product in double precision.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local sparse = require "sparse_kernels"
local every_mode = require "every_mode"

local PIECE = 8 -- columns stored at a time

-- out = a * b, one tile. o: m, n, k, dtype, acc; a_transposed: a is stored (K, M); b_transposed: b is stored
-- (N, K); a_swizzle, b_swizzle, b_tiling; a_tmem: "store" or "copy"; roles: of their own for load, mma and epilogue;
-- others: roles of a warpgroup beside these, which take registers from the class.
local function tile(o)
   local a_shape = o.a_transposed and { o.k, o.m } or { o.m, o.k }
   local b_shape = o.b_transposed and { o.n, o.k } or { o.k, o.n }
   local narrow = o.acc.bits < 32
   local kernel = tc.kernel {
      name = "tile", args = { tc.gmem(a_shape, o.dtype), tc.gmem(b_shape, o.dtype), tc.gmem({ o.m, o.n }, o.acc) },
      target = "sm_90a", grid = { 1 }, grid_names = { "x" },
      body = function(a, b, out)
         local a_smem = tc.smem(a_shape, o.dtype, { swizzle = o.a_swizzle })
         local b_smem = tc.smem(b_shape, o.dtype, { swizzle = o.b_swizzle, tiling = o.b_tiling })
         local acc = tc.tmem({ o.m, o.n }, o.acc, narrow and { packed = false } or nil)
         local a_tmem = o.a_tmem and tc.tmem({ o.m, o.k }, o.dtype, { packed = true })
         local loaded, done = tc.barrier { num_arrivals = 2 }, tc.barrier { orders_tensor_core = true }
         local function load()
            tc.copy_gmem_to_smem(a, a_smem, loaded)
            tc.copy_gmem_to_smem(b, b_smem, loaded)
         end
         local function multiply()
            local left = o.a_transposed and a_smem:T() or a_smem
            tc.barrier_wait(loaded)
            if o.a_tmem == "copy" then
               tc.async_copy_smem_to_tmem(a_smem, a_tmem)
            elseif o.a_tmem then
               tc.async_store_tmem(a_tmem, a_smem:load())
               tc.commit_tmem()
            end
            tc.mma(acc, a_tmem or left, o.b_transposed and b_smem:T() or b_smem,
               { accumulate = false, barrier = done })
         end
         local function epilogue()
            tc.barrier_wait(done)
            for c = 0, o.n - 1, PIECE do
               out:at(tc.all, tc.ds(c, PIECE)):store(tc.async_load_tmem(acc:at(tc.all, tc.ds(c, PIECE))))
            end
         end
         if not o.roles then
            load()
            multiply()
            epilogue()
            return
         end
         for i = 1, o.others or 0 do
            tc.role { name = "other" .. i, warpgroups = 1 }(function() tc.assert(tc.axis_index "x":ge(0), "x") end)
         end
         tc.role { name = "load", warps = 1 }(load)
         tc.role { name = "mma", warps = not o.a_tmem and 1 or nil, warpgroups = o.a_tmem and 1 or nil }(multiply)
         tc.role { name = "epilogue", warpgroups = 1 }(epilogue)
      end,
   }
   return kernel, a_shape, b_shape
end

-- On the GPU of gpu_layout_spec, or on the emulator.
local function run(kernel, mode, ...)
   if every_mode.gpu then return kernel(...) end
   kernels.run(kernel, { target = "sm_90a", mode = mode or "fast" }, ...)
end

-- True: it ran, right; false: it was refused because its accumulators do not fit into registers.
local function check(o, mode)
   local text = {}
   for key, value in pairs(o) do text[#text + 1] = key .. "=" .. tostring(value) end
   table.sort(text)
   text = table.concat(text, " ")
   local ok, kernel, a_shape, b_shape = pcall(tile, o)
   assert.is_true(ok, text .. ": " .. tostring(kernel))
   local a, b = kernels.integers(a_shape, o.dtype, 1), kernels.integers(b_shape, o.dtype, 2)
   local out = tc.zeros({ o.m, o.n }, o.acc)
   local ran, message = pcall(run, kernel, mode, a, b, out)
   if not ran then
      assert.matches("rule %(c%) for it", tostring(message), text)
      return false
   end
   local expected = tc.reference.matmul(a, b, { transpose_a = o.a_transposed, transpose_b = o.b_transposed })
   assert.are.equal(0, (tc.max_error(out, expected)), text)
   return true
end

-- Roles and registers: none; three; three beside two warpgroups of others.
local layouts = { {}, { roles = true }, { roles = true, others = 2 } }

-- An assembler takes its time: on a GPU half of those that are cut.
local function is_tried(layout, n, step)
   return not every_mode.gpu or (layout == layouts[2] and n >= 144 and n // step % 2 == 1)
end

-- check() of every N that `step` divides, with all layouts; how many ran.
local function every_n(m, step, options)
   local ran = 0
   for _, layout in ipairs(layouts) do
      for n = step, 512, step do
         local o = { m = m, n = n }
         for key, value in pairs(options) do o[key] = value end
         for key, value in pairs(layout) do o[key] = value end
         if is_tried(layout, n, step) and check(o) then ran = ran + 1 end
      end
   end
   return ran
end

describe("an mma that is cut along N on sm_90a", function()
   for _, m in ipairs { 64, 128, 192, 256 } do
      for _, swizzle in ipairs { 32, 64, 128 } do
         it(("has panels of B whole: M = %d, B stored (K, N) with swizzle %d"):format(m, swizzle), function()
            local half = swizzle // 2 -- columns of a panel
            local ran = every_n(m, half, { k = 16, dtype = tc.f16, acc = tc.f32, b_swizzle = swizzle })
            assert.is_true(ran > 0 or every_mode.gpu ~= nil)
            every_n(m, half, { k = 16, dtype = tc.bf16, acc = tc.f32, b_swizzle = swizzle, a_transposed = true,
               a_swizzle = swizzle })
            every_n(m, half, { k = 16, dtype = tc.f16, acc = tc.f16, b_swizzle = swizzle, a_tmem = "store" })
            if m == 128 then
               every_n(m, half, { k = 32, dtype = tc.f16, acc = tc.f32, b_swizzle = swizzle, a_tmem = "copy" })
            end
         end)
      end

      it(("has rows of B whole: M = %d, B stored (N, K)"):format(m), function()
         local ran = every_n(m, 24, { k = 16, dtype = tc.f16, acc = tc.f32, b_transposed = true })
         assert.is_true(ran > 0 or every_mode.gpu ~= nil)
         every_n(m, 48, { k = 32, dtype = tc.i8, acc = tc.i32, b_transposed = true })
         every_n(m, 40, { k = 32, dtype = tc.e4m3, acc = tc.f16, b_transposed = true })
         every_n(m, 40, { k = 8, dtype = tc.f32, acc = tc.f32, b_transposed = true })
      end)
   end

   it("runs without hazards", function()
      if every_mode.gpu then return end
      for _, mode in ipairs { "check", "random" } do
         for _, n in ipairs { 272, 288, 320 } do
            local swizzle = n % 64 == 0 and 128 or n % 32 == 0 and 64 or 32
            check({ m = 128, n = n, k = 16, dtype = tc.f16, acc = tc.f32, b_swizzle = swizzle, roles = true }, mode)
         end
      end
   end)

   it("has a sparse A", function()
      for _, swizzle in ipairs { 32, 64, 128 } do
         for n = 256 + swizzle // 2, 352, swizzle // 2 do
            local o = { a = "f16", n = n, k = 128, b_rows = true, b_swizzle = swizzle }
            local list = sparse.operands(o)
            local out = tc.zeros({ 128, n }, tc.f32)
            run(sparse.kernel(o), "fast", list[1], list[2], list[3], out)
            assert.are.equal(0, (tc.max_error(out, list.expected)), ("N = %d, swizzle %d"):format(n, swizzle))
         end
      end
   end)
end)

describe("operands without swizzle on sm_90a", function()
   it("are refused", function()
      for _, b_transposed in ipairs { false, true } do
         local kernel = tile { m = 64, n = 128, k = 32, dtype = tc.f16, acc = tc.f32, b_swizzle = "none",
            b_tiling = { 8, 8 }, b_transposed = b_transposed }
         assert.error_matches(function() kernel:ptx { target = "sm_90a" } end,
            'b was allocated with swizzle = "none"', nil, true)
      end
   end)
end)
