-- Reports of the emulator name what a recorded kernel lacks by its own lines, also where the hazard is a consequence:
-- each kernel here is right but for one call.
local tc = require "tcmma"

local function here() return debug.getinfo(2, "l").currentline end

local target = "sm_100a"

local function fixes(kernel, mode, ...)
  local list = {}
  for _, hazard in ipairs(kernel:emulate({ target = target, mode = mode }, ...).hazards) do
    local fix = hazard.message:match "\n    fix: ([^\n]*)$"
    list[hazard.rule] = fix:match "^(.*) %(in PTX: .*%)$" or fix
  end
  return list
end

local function at(line) return ("%%(line %d%%)"):format(line) end

-- Copies four tiles through `slots` of SMEM.  without: "commit", "wait"; n: of the wait.
local store_line, copy_line, wait_line

local function through_smem(o)
  return tc.kernel{ name = "through", args = { tc.gmem({ 512, 64 }, tc.f16), tc.gmem({ 512, 64 }, tc.f16) },
    body = function(a, out)
      local smem = tc.smem({ o.slots, 128, 64 }, tc.f16)
      tc.range(4, function(t)
        local slot = smem[t % o.slots]
        if o.without ~= "wait" then
          wait_line = here(); tc.wait_smem_to_gmem(o.n)
        end
        store_line = here(); slot:store(a:tile({ t, 0 }, { 128, 64 }):load())
        if o.without ~= "commit" then tc.commit_smem() end
        copy_line = here(); tc.copy_smem_to_gmem(slot, out:tile({ t, 0 }, { 128, 64 }))
      end)
      if o.without ~= "wait" then tc.wait_smem_to_gmem(0) end
    end }
end

local function through(o, mode)
  local a = tc.randn({ 512, 64 }, tc.f16, { seed = 1 })
  return fixes(through_smem(o), mode, a, tc.zeros({ 512, 64 }, tc.f16))
end

for _, each in ipairs{ "sm_100a", "sm_90a" } do
  describe("A report of a kernel on " .. each, function()
    setup(function() target = each end)
    it("whose call is there names nothing", function()
      for _, mode in ipairs{ "check", "random" } do assert.are.same({}, through({ slots = 2, n = 1 }, mode)) end
    end)

    it("without tc.commit_smem names it with the store and the copy, whatever shows first", function()
      for _, mode in ipairs{ "check", "random" } do
        local list = through({ slots = 2, n = 1, without = "commit" }, mode)
        local expected = "^tc%.commit_smem%(%) between ref:store " .. at(store_line) .. " and tc%.copy_smem_to_gmem "
          .. at(copy_line) .. "$"
        assert.is_truthy(next(list))
        for rule, fix in pairs(list) do assert.matches(expected, fix, nil, nil, rule) end
        assert.is_truthy(list["bulk-read-not-awaited"])
        assert.is_truthy(list["proxy-fence"])
      end
    end)

    it("says what mends the rule itself in PTX, but not where the hazard is a consequence", function()
      local kernel, a = through_smem{ slots = 2, n = 1, without = "commit" }, tc.ones({ 512, 64 }, tc.f16)
      local report = kernel:emulate({ target = target, mode = "check" }, a, tc.zeros(a.shape, a.dtype))
      for _, hazard in ipairs(report.hazards) do
        assert.are.equal(hazard.rule == "proxy-fence", hazard.message:find("(in PTX: ", 1, true) ~= nil, hazard.message)
      end
    end)

    it("without tc.wait_smem_to_gmem says that it waits nowhere", function()
      local list = through({ slots = 1, without = "wait" }, "check")
      assert.matches("^tc%.wait_smem_to_gmem%(n%) between tc%.copy_smem_to_gmem " .. at(copy_line)
        .. " and the next write to its SMEM, by the role that copies: it waits nowhere$", list["bulk-read-not-awaited"])
    end)

    it("that waits for too few copies names the wait and its n", function()
      local list = through({ slots = 1, n = 1 }, "check")
      assert.matches("^a smaller n, or more slots of SMEM: of the groups of tc%.copy_smem_to_gmem " .. at(copy_line)
        .. ", tc%.wait_smem_to_gmem " .. at(wait_line) .. " lets 1 go on reading$", list["bulk-read-not-awaited"])
    end)

    it("that waits only behind the next write says so", function()
      local wait, copy
      local late = tc.kernel{ name = "late", args = { tc.gmem({ 256, 64 }, tc.f16) }, body = function(out)
        local smem = tc.smem({ 128, 64 }, tc.f16)
        for t = 0, 1 do
          smem:store(tc.full({ 128, 64 }, t, tc.f16))
          tc.commit_smem()
          copy = here(); tc.copy_smem_to_gmem(smem, out:tile({ t, 0 }, { 128, 64 }))
        end
        wait = here(); tc.wait_smem_to_gmem(0)
      end }
      local list = fixes(late, "check", tc.zeros({ 256, 64 }, tc.f16))
      assert.matches("^tc%.wait_smem_to_gmem%(0%) " .. at(wait) .. " between tc%.copy_smem_to_gmem " .. at(copy)
        .. " and the next write to its SMEM;", list["bulk-read-not-awaited"])
    end)

    it("whose MMA reads what threads have stored, without tc.commit_smem, names it", function()
      local store, multiply
      local kernel = tc.kernel{ name = "stored", args = { tc.gmem({ 128, 64 }, tc.f16), tc.gmem({ 128, 128 }, tc.f32) },
        body = function(a, out)
          local smem, acc = tc.smem({ 128, 64 }, tc.f16), tc.tmem({ 128, 128 }, tc.f32)
          local done = tc.barrier{ orders_tensor_core = true }
          store = here(); smem:store(a:load())
          multiply = here(); tc.mma(acc, smem, smem:T(), { accumulate = false, barrier = done })
          tc.barrier_wait(done)
          out:store(tc.async_load_tmem(acc))
        end }
      local list = fixes(kernel, "check", tc.randn({ 128, 64 }, tc.f16), tc.zeros({ 128, 128 }, tc.f32))
      assert.is_truthy(next(list))
      for rule, fix in pairs(list) do
        assert.matches("^tc%.commit_smem%(%) between ref:store " .. at(store) .. " and tc%.mma " .. at(multiply) .. "$",
          fix, nil, nil, rule)
      end
    end)

    it("whose copies lie outside of the array names what they copy", function()
      local kernel = tc.kernel{ name = "exchanged", args = { tc.gmem({ "M", "K" }, tc.f16) }, grid = { 4 },
        grid_names = { "m" }, body = function(a)
          local smem, loaded = tc.smem({ 64, 64 }, tc.f16), tc.barrier{}
          tc.copy_gmem_to_smem(a:tile({ 0, tc.axis_index "m" }, { 64, 64 }), smem, loaded)
          tc.barrier_wait(loaded)
        end }
      local list = fixes(kernel, "check", tc.zeros({ 256, 64 }, tc.f16))
      assert.are.equal("other indices: it copies (64, 64) of GMEM ref, float16 (M, K), argument 1 from (0, m * 64) on; "
        .. "ref:tile(index, shape) counts tiles, ref:at elements", list["boxes-outside"])
    end)

    it("that first waits for parity 1 is told which parity is the first", function()
      local wait
      local kernel = tc.kernel{ name = "parity", args = { tc.gmem({ 64, 64 }, tc.f32), tc.gmem({ 64, 64 }, tc.f32) },
        body = function(a, out)
          local smem, loaded = tc.smem({ 64, 64 }, tc.f32), tc.barrier{}
          tc.copy_gmem_to_smem(a, smem, loaded)
          wait = here(); tc.barrier_wait(loaded, { parity = 1 })
          out:store(smem:load())
        end }
      local a, out = tc.ones({ 64, 64 }, tc.f32), tc.zeros({ 64, 64 }, tc.f32)
      local first = "the first wait is for parity 0; parity 1 passes while phase 0 is open"
      local list = fixes(kernel, "check", a, out)
      assert.is_truthy(list["copy-not-awaited"])
      list["mbarrier-tx"] = nil -- of the end, when nobody has waited
      for rule, fix in pairs(list) do
        assert.matches("^tc%.barrier_wait " .. at(wait) .. " without parity, or with parity = 0: " .. first .. "$", fix,
          nil, nil, rule)
      end
      local report = kernel:emulate({ target = target, mode = "fast" }, a, out)
      assert.matches("likely: nobody has waited for parity 0 of barrier .*: " .. first .. "\n",
        report.hazards[1].message)
    end)

    it("whose ring waits for nothing to be read gets its lint with the error", function()
      local kernel = tc.kernel{ name = "ring", args = { tc.gmem({ 128, 384 }, tc.f16), tc.gmem({ 128, 128 }, tc.f32) },
        target = target, body = function(a, out)
          local smem, acc = tc.smem({ 2, 128, 64 }, tc.f16), tc.tmem({ 128, 128 }, tc.f32)
          local full = tc.barrier{ num_barriers = 2 }
          local empty = tc.barrier{ num_barriers = 2, orders_tensor_core = true, name = "empty" }
          local done = tc.barrier{ orders_tensor_core = true }
          tc.role{ name = "load", warps = 1 }(function()
            tc.range(6, function(k) tc.copy_gmem_to_smem(a:tile({ 0, k }, { 128, 64 }), smem[k % 2], full[k % 2]) end)
          end)
          tc.role{ name = "mma", warps = 1 }(function()
            tc.range(6, function(k)
              tc.barrier_wait(full[k % 2])
              tc.mma(acc, smem[k % 2], smem[k % 2]:T(), { barrier = empty[k % 2], accumulate = k:gt(0) })
            end)
            tc.commit_arrive(done)
          end)
          tc.role{ name = "out", warpgroups = 1 }(function()
            tc.barrier_wait(done)
            out:store(tc.async_load_tmem(acc))
          end)
        end }
      local device = tc.device("emulator:" .. target)
      local a = tc.ones({ 128, 384 }, tc.f16, { device = device })
      local out = tc.zeros({ 128, 128 }, tc.f32, { device = device })
      local report = kernel:emulate({ target = target, mode = "check" }, a, out)
      assert.are.same({ "mbarrier-over-arrival", "arrival-not-awaited" },
        { report.hazards[1].rule, report.hazards[2].rule })
      assert.matches("\n    fix: tc%.barrier_wait before the copy or arrival of the next turn",
        report.hazards[1].message)
      local ok, message = pcall(kernel, a, out)
      if not ok then
        assert.matches('lint [arrival-not-awaited] tc.mma: nothing ever waits on barrier "empty"', message, 1, true)
      end
    end)
  end)
end
