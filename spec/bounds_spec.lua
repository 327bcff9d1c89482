-- Recorded indices of stages, slots, slices and barriers: one beyond its array stops the kernel on the
-- emulator, whose text differs from that of a GPU by these checks alone.
local tc = require "tcmma"

-- The body uses at[0], which the launch sets; it returns the line of the op.
local function kernel(target, body, profile)
   local line
   local k = tc.kernel {
      name = "bounds", target = target, profile = profile,
      args = { tc.gmem({ 1 }, tc.int32), tc.gmem({ 8, 64 }, tc.float32) },
      body = function(at, x) line = body(at[0]:load(), x) end,
   }
   return k, line
end

local function here() return debug.getinfo(2, "l").currentline end

local function run(k, at, mode)
   return k:emulate({ mode = mode }, tc.from_table({ at }, tc.int32), tc.ones({ 8, 64 }, tc.float32))
end

local function text_for(case, index)
   return (case.text:gsub("NUMBER", (tostring(index):gsub("-", "%%%%-"))))
end

local cases = {
   { what = "a stage that is stored to", inside = { 0, 1 }, outside = { 2, -1, 1000000 },
      text = "index NUMBER of dimension 0 of the SMEM made at line %d+ is outside 0 to 1",
      body = function(i)
         local s = tc.smem({ 2, 8, 64 }, tc.float32)
         tc.smem({ 8, 64 }, tc.float32)
         s[i]:store(1) local line = here() return line
      end },
   { what = "a stage that is loaded", inside = { 1 }, outside = { 2 },
      text = 'index NUMBER of dimension 0 of "ring" %(SMEM made at line %d+%) is outside 0 to 1',
      body = function(i, x)
         local s = tc.smem({ 2, 8, 64 }, tc.float32, { name = "ring" })
         s[0]:store(1)
         s[1]:store(1)
         tc.smem({ 8, 64 }, tc.float32):store(1)
         x:store(s[i]:load()) local line = here() return line
      end },
   { what = "the second of two indices", inside = { 2 }, outside = { 3 },
      text = "index NUMBER of dimension 1 of the SMEM made at line %d+ is outside 0 to 2",
      body = function(i)
         tc.smem({ 2, 3, 8, 64 }, tc.float32):at(0, i):store(1) local line = here() return line
      end },
   { what = "rows of a slice", inside = { 0, 8 }, outside = { 16 },
      text = "index NUMBER of dimension 0 of the SMEM made at line %d+ is outside 0 to 8",
      body = function(i)
         local s = tc.smem({ 16, 64 }, tc.float32)
         tc.smem({ 16, 64 }, tc.float32)
         s:tile({ i // 8, 0 }, { 8, 64 }):store(1) local line = here() return line
      end },
   { what = "a single element", inside = { 0, 15 }, outside = { 16, -1 },
      text = "index NUMBER of dimension 0 of the SMEM made at line %d+ is outside 0 to 15",
      body = function(i)
         local s = tc.smem({ 16 }, tc.float32)
         s[i] = 1 local line = here() return line
      end },
   { what = "a barrier", inside = { 1 }, outside = { 2, -1 },
      text = 'index NUMBER of barrier "mine" %(made at line %d+%) is outside 0 to 1',
      body = function(i)
         local b = tc.barrier { num_barriers = 2, name = "mine" }
         tc.barrier_arrive(b[i]) local line = here()
         tc.barrier_wait(b[i])
         return line
      end },
   { what = "a stage that a copy fills", inside = { 1 }, outside = { 2 },
      text = "index NUMBER of dimension 0 of the SMEM made at line %d+ is outside 0 to 1",
      body = function(i, x)
         local s, b = tc.smem({ 2, 8, 64 }, tc.float32), tc.barrier {}
         tc.smem({ 2, 8, 64 }, tc.float32)
         tc.copy_gmem_to_smem(x, s[i], b) local line = here()
         tc.barrier_wait(b)
         return line
      end },
}

local function each(targets, fn)
   for _, target in ipairs(targets) do
      for _, case in ipairs(cases) do fn(target, case) end
   end
end

describe("an index beyond its array", function()
   each({ "sm_100a", "sm_90a" }, function(target, case)
      local on = { device = "emulator:" .. target }
      it(("stops the kernel: %s, %s"):format(case.what, target), function()
         for _, profile in ipairs { false, true } do
            local k, line = kernel(target, case.body, profile)
            for _, mode in ipairs { "fast", "check", "random" } do
               for _, at in ipairs(case.inside) do
                  local report = run(k, at, mode)
                  assert.is_true(report.completed, mode .. at)
               end
               for _, at in ipairs(case.outside) do
                  local hazard = run(k, at, mode).hazards[1]
                  assert.equal("error", hazard.severity)
                  assert.equal("index-out-of-bounds", hazard.rule)
                  assert.matches(text_for(case, at), hazard.message)
                  assert.equal(line, hazard.lua_line)
               end
            end
            local at = tc.zeros({ 1 }, tc.int32, on):fill(case.outside[1])
            local _, message = pcall(k, at, tc.ones({ 8, 64 }, tc.float32, on))
            assert.matches(text_for(case, case.outside[1]), message)
            assert.matches("recorded at [^\n]*bounds_spec.lua:" .. line, message)
            assert.not_matches("PTX line", message)
         end
      end)
   end)

   it("is named where several indices of an op are checked", function()
      local k = kernel("sm_90a", function(i, x)
         local s, b = tc.smem({ 4, 8, 64 }, tc.float32, { name = "ring" }), tc.barrier { num_barriers = 2, name = "b" }
         tc.copy_gmem_to_smem(x, s[i], b[i // 2 + 1])
         tc.barrier_wait(b[1])
      end)
      assert.matches('index 2 of barrier "b" %(made at line %d+%) is outside 0 to 1',
        run(k, 2, "fast").hazards[1].message)
      assert.matches('index 4 of dimension 0 of "ring"', run(k, 4, "fast").hazards[1].message)
   end)

   it("is a slot or a column of tensor memory", function()
      local k, line = kernel("sm_100a", function(i)
         local t = tc.tmem({ 2, 128, 64 }, tc.float32)
         tc.async_store_tmem(t[i], 1) local line = here() return line
      end)
      assert.is_true(run(k, 1, "check").completed)
      local hazard = run(k, 2, "fast").hazards[1]
      assert.matches("index 2 of dimension 0 of the TMEM made at line %d+ is outside 0 to 1", hazard.message)
      assert.equal(line, hazard.lua_line)
   end)

   it("is a slot of scale factors, of a copy and of tc.mma", function()
      for _, in_mma in ipairs { false, true } do
         local k, line = kernel("sm_100a", function(i)
            local a, b = tc.smem({ 128, 128 }, tc.e4m3), tc.smem({ 128, 128 }, tc.e4m3)
            local plain = tc.smem({ 1, 1, 32, 16 }, tc.e8m0)
            local acc, done = tc.tmem({ 128, 128 }, tc.float32), tc.barrier { orders_tensor_core = true }
            local scales = tc.tmem({ 2, 128, 4 }, tc.e8m0, { layout = "scales", name = "scales" })
            a:T():store(0) b:store(0) plain[0][0]:store(0)
            tc.commit_smem()
            tc.async_copy_scales_to_tmem(plain, scales[in_mma and 0 or i]) local line = here()
            tc.async_copy_scales_to_tmem(plain, scales[1])
            if in_mma then
               tc.mma(acc, a, b, { accumulate = false, a_scale = scales[i], b_scale = scales[0] }) line = here()
            end
            tc.commit_arrive(done)
            tc.barrier_wait(done)
            return line
         end)
         assert.is_true(run(k, 1, "fast").completed)
         local hazard = run(k, 2, "fast").hazards[1]
         assert.matches('index 2 of dimension 0 of "scales" %(TMEM made at line %d+%) is outside 0 to 1',
            hazard.message)
         assert.equal(line, hazard.lua_line)
      end
   end)

   it("is seen by peek", function()
      local k, at, x = tc.record { args = { tc.gmem({ 1 }, tc.int32), tc.gmem({ 8, 64 }, tc.float32) } }
      local s = tc.smem({ 2, 8, 64 }, tc.float32)
      s[at[0]:load()]:store(1)
      local ok, message = pcall(x.peek, x, { quiet = true, args = { tc.from_table({ 5 }, tc.int32) } })
      assert.is_false(ok)
      assert.matches("is outside 0 to 1", message)
      k:close()
   end)
end)

describe("the text of a kernel", function()
   it("has no checks", function()
      each({ "sm_100a", "sm_90a" }, function(target, case)
         local text = kernel(target, case.body):ptx()
         assert.not_matches("trap", text)
         assert.not_matches("outside", text)
      end)
   end)

   it("is what reports show and count", function()
      local k = kernel("sm_100a", function(i)
         local s = tc.smem({ 2, 8, 64 }, tc.float32)
         s[i]:store(1)
         tc.assert(i:lt(0), "mine")
      end)
      local hazard = run(k, 1, "fast").hazards[1]
      assert.equal("mine", hazard.message:match "mine")
      local number = 0
      for text in k:ptx():gmatch "([^\n]*)\n" do
         number = number + 1
         if number == hazard.ptx_line then assert.matches("call.uni __assertfail", text, 1, true) end
      end
   end)
end)
