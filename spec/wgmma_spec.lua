-- Matmuls on sm_90a: tensor memory in registers, one program for the roles that share it. Results are
-- compared with the product in double precision, exactly; the assembler's report must show neither
-- spilled registers nor its messages of serialised MMAs and ignored register counts (C75xx).
local tc = require "tcmma"
local hopper = require "wgmma_kernels"

local check = hopper.check
local no_assembler

-- A kernel that runs right and assembles well.
local function checked(options, run)
   local info = hopper.assembled(check(options, run))
   no_assembler = no_assembler or info.assembler_missing
   if not info.assembler_missing then
      assert.are.equal(0, info.spill_stores + info.spill_loads)
      assert.are.equal(0, info.stack)
      assert.not_matches("%(C75", info.log)
   end
   return info
end

-- A call of a function in the machine code makes the assembler serialise every wgmma.
describe("arithmetic in an epilogue on sm_90a", function()
   local epilogues = {
      ["/"] = function(x) return 1 / (x * x + 3) end, ["/ constant"] = function(x) return x / 3 end,
      sqrt = function(x) return tc.sqrt(tc.abs(x)) end, rsqrt = function(x) return tc.rsqrt(tc.abs(x) + 1) end,
      log = function(x) return tc.log(tc.abs(x) + 1) end, exp = function(x) return tc.exp(x) end,
      tanh = function(x) return tc.tanh(x) end, silu = function(x) return x / (1 + tc.exp(-x)) end,
      ["// and %"] = function(x)
         local i = x:astype(tc.int32)
         return (i // 7 + i % 5 + i // ((i & 3) + 1) + i % ((i & 7) + 1)):astype(tc.float32)
      end,
      ["recorded scalars"] = function(x, n)
         local s = n:astype(tc.float32) + 2
         return x * (tc.sqrt(s) / (s + 1) + (s / 3)) + (n // 3 + n % 5):astype(tc.float32)
      end,
   }
   for name, finish in pairs(epilogues) do
      it(("has no function calls: %s"):format(name), function()
         local kernel = hopper.matmul { tm = 128, tn = 128, piece = 32, finish = finish }
         local info = hopper.assembled(kernel)
         if info.assembler_missing then return end
         assert.not_matches("%(C75", info.log)
         assert.is_nil(kernel:cubin { target = "sm_90a" }:find("$__internal", 1, true))
      end)
   end
end)

describe("what the assembler warns of", function()
   local hindered = hopper.matmul { tm = 128, tn = 128, piece = 32, finish = function(x) return 1 / (x * x + 3) end }
   local text = hindered:ptx { target = "sm_90a" }:gsub("div%.full", "div.rn")

   it("stands among the lints of k:info", function()
      local info = tc.ptx(text):kernel():info()
      if not info then return pending "no assembler" end
      assert.matches("^%(C7509%) Potential Performance Loss: wgmma", info.warnings[1])
      local lint = info.lints[#info.lints]
      assert.are.same({ "assembler-warning", "lint", info.warnings[1] }, { lint.rule, lint.severity, lint.message })
   end)
end)

describe("a matmul on sm_90a", function()
   for _, tm in ipairs { 64, 128, 192, 256 } do
      it(("with M = %d"):format(tm), function()
         for _, tn in ipairs { 8, 64, 136, 256 } do
            if tm <= 128 or tn <= 136 then
               checked { tm = tm, tn = tn, piece = tn % 64 == 0 and 64 or 8, b_transposed = true }
            end
         end
      end)
   end

   it("with the widest tiles of three and four warpgroups, which need the registers that setmaxnreg moves", function()
      local tiles = { { tm = 192, tn = 240 }, { tm = 192, tn = 256 }, { tm = 256, tn = 144 }, { tm = 256, tn = 160 } }
      for _, o in ipairs(tiles) do
         local kernel = check { tm = o.tm, tn = o.tn, piece = 16, stages = 1, steps = 2, b_transposed = true }
         assert.matches("setmaxnreg%.inc", kernel:ptx { target = "sm_90a" })
         local info = kernel:info { target = "sm_90a" }
         if info.assembler and info.assembler:match "^ptxas" then
            assert.are.equal(0, info.spill_stores + info.spill_loads)
            assert.are.same({}, info.warnings)
         end
      end
   end)

   it("with every N", function()
      for tn = 8, 256, 8 do
         check { tm = 64, tn = tn, tk = 32, steps = 2, piece = tn % 16 == 0 and 16 or 8, b_transposed = true }
      end
   end)

   it("with N above 256, as several multiplications", function()
      checked { tm = 64, tn = 384, stages = 1, b_transposed = true }
      checked { tm = 64, tn = 512, stages = 1, acc = tc.float16 }
   end)

   for _, swizzle in ipairs { 32, 64, 128 } do
      for _, a_transposed in ipairs { false, true } do
         for _, b_transposed in ipairs { false, true } do
            it(("with swizzle %d, a stored %s, b stored %s"):format(swizzle, a_transposed and "(K, M)" or "(M, K)",
               b_transposed and "(N, K)" or "(K, N)"), function()
               for _, tm in ipairs { 64, 128 } do
                  for _, dtype in ipairs { tc.float16, tc.bfloat16 } do
                     check { tm = tm, tn = 64, swizzle = swizzle, out_swizzle = swizzle, dtype = dtype,
                        a_transposed = a_transposed, b_transposed = b_transposed }
                  end
               end
            end)
         end
      end
   end

   it("with one to four stages, and a k-step more than stages", function()
      for stages = 1, 4 do
         for _, tm in ipairs { 64, 128 } do
            checked { tm = tm, stages = stages, steps = stages + 1 }
            check { tm = tm, stages = stages, steps = 9 }
            check { tm = tm, stages = stages, steps = 1 }
         end
      end
   end)

   it("with two slots awaited at once", function()
      checked { stages = 4, steps = 8, two = true }
      checked { stages = 2, steps = 6, two = true }
   end)

   it("with a rest of K", function()
      check { k = 200 }
   end)

   it("of 128 x 256 x 64 needs no more registers than it is launched with", function()
      local info = checked { tn = 256, stages = 4, out_swizzle = 128, read_only = true }
      if not info.assembler_missing then assert.is_true(info.registers <= 168) end
   end)

   it("gives registers to the warpgroups that multiply where the epilogue needs them", function()
      for _, tile in ipairs { { 128, 256 }, { 192, 192 }, { 256, 128 } } do
         local kernel = check { tm = tile[1], tn = tile[2], stages = 2, steps = 3, bias = true }
         local info = checked { tm = tile[1], tn = tile[2], stages = 2, steps = 3, bias = true }
         local text = kernel:ptx { target = "sm_90a" }
         local up, down = text:match "setmaxnreg%.inc%S+ (%d+)", text:match "setmaxnreg%.dec%S+ (%d+)"
         assert.is_truthy(up and down)
         -- No more than the block was launched with: else the increase waits for ever.
         local groups = tile[1] // 64
         local launched = 65536 // (128 * (groups + 1)) // 8 * 8
         assert.is_true(groups * up + down <= (groups + 1) * launched)
         assert.is_truthy(info)
      end
   end)

   it("of float8", function()
      local e4m3, e5m2 = tc.e4m3, tc.e5m2
      for _, pair in ipairs { { e4m3, e4m3 }, { e5m2, e4m3 }, { e4m3, e5m2 }, { e5m2, e5m2 } } do
         for _, acc in ipairs { tc.float32, tc.float16 } do
            checked { dtype = pair[1], dtype_b = pair[2], acc = acc, tk = 128, b_transposed = true }
         end
      end
   end)

   it("of int8", function()
      for _, pair in ipairs { { tc.i8, tc.i8 }, { tc.u8, tc.i8 }, { tc.i8, tc.u8 }, { tc.u8, tc.u8 } } do
         checked { dtype = pair[1], dtype_b = pair[2], acc = tc.int32, tk = 128, b_transposed = true, piece = 32 }
      end
   end)

   it("of float32 as tfloat32", function()
      for _, tm in ipairs { 64, 128 } do
         checked { tm = tm, dtype = tc.float32, tk = 32, out = tc.float32, piece = 32, b_transposed = true }
      end
   end)

   it("into float16 accumulators", function()
      checked { acc = tc.float16 }
      checked { acc = tc.float16, tm = 64, tn = 256 }
   end)

   it("with a vector added to every row", function()
      for _, tm in ipairs { 64, 128 } do checked { tm = tm, bias = true } end
   end)

   it("with tiles in a shared loop", function()
      checked { persistent = true, tiles_m = 2, tiles_n = 3, stages = 3 }
      checked { persistent = true, tiles_m = 2, tiles_n = 4, ctas = 2, tn = 256, stages = 2 }
   end)

   it("with two accumulators of which one is live at a time", function()
      local info = checked { persistent = true, tiles_m = 2, tiles_n = 3, slots = 2, tn = 256 }
      if not info.assembler_missing then assert.is_true(info.registers <= 168) end
   end)

   for _, mode in ipairs { "check", "random" } do
      it("without hazards in mode " .. mode, function()
         for _, options in ipairs {
            { persistent = true, tiles_m = 2, tiles_n = 2 },
            { persistent = true, tiles_m = 2, tiles_n = 2, slots = 2, tm = 64 },
            { stages = 1, tm = 64 }, { stages = 1 }, { stages = 3, steps = 7, bias = true, tm = 192 },
            { stages = 2, steps = 6, two = true }, { acc = tc.float16, tm = 256, tn = 64 },
         } do
            check(options, { target = "sm_90a", mode = mode, numerics = "f32" })
         end
      end)
   end

   it("was assembled", function()
      if no_assembler then return pending(no_assembler) end
   end)
end)

describe("the text for sm_90a", function()
   local function text(options) return (hopper.matmul(options)):ptx { target = "sm_90a" } end
   local function count(s, what)
      local _, n = s:gsub(what, "")
      return n
   end

   it("has one body of the main loop, and one fence and commit for its MMAs", function()
      local s = text { tn = 256, stages = 4, steps = 9 }
      assert.are.equal(4, count(s, "wgmma%.mma_async"))
      assert.are.equal(1, count(s, "wgmma%.fence"))
      assert.are.equal(1, count(s, "wgmma%.commit_group"))
      assert.are.equal(1, count(s, "wgmma%.wait_group%.sync%.aligned 1;"))
   end)

   it("stores through stmatrix and waits only until SMEM has been read", function()
      local s = text { tn = 256 }
      assert.are.equal(16, count(s, "stmatrix"))
      assert.are.equal(0, count(s, "st%.shared"))
      assert.are.equal(0, count(s, "bulk%.wait_group %d"))
   end)

   it("waits for its own accumulators without an mbarrier", function()
      local s = text { stages = 2 }
      assert.are.equal(4, count(s, "mbarrier%.init"))
      assert.are.equal(1, count(s, "mbarrier%.init%S+ %S+, 8;") // 2)
   end)

   it("names barriers by immediate numbers", function()
      assert.is_nil(text {}:match "bar%.sync %%")
   end)
end)
