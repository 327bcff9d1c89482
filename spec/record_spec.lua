local tc = require "tcmma"
local recording = require "recording"
local message, with, ops = recording.message, recording.with, recording.ops

describe("tc.kernel and tc.record", function()
  it("record the matmul of the manual", function()
    local k = require "compiler_kernels".matmul { m = 512, n = 512, k = 512, tm = 128, tn = 256, tk = 64, stages = 4 }
    local text = ops(k)
    assert.same({
      'role "load" (1 warp)',
      "  range i1 = 0 to 8 step 1",
      "    when i1 >= 4",
      "      barrier_wait barrier1[i1 % 4]",
      "    copy_gmem_to_smem arg0[m * 128 +: 128, i1 * 64 +: 64] -> smem0[i1 % 4, :, :] barrier=barrier0[i1 % 4]",
      "    copy_gmem_to_smem arg1[i1 * 64 +: 64, n * 256 +: 256] -> smem1[i1 % 4, :, :] barrier=barrier0[i1 % 4]",
      'role "mma" (1 warp)',
      "  range i7 = 0 to 8 step 1",
      "    barrier_wait barrier0[i7 % 4]",
      "    mma tmem2 (+)= smem0[i7 % 4, :, :] @ smem1[i7 % 4, :, :] accumulate=i7 > 0 barrier=barrier1[i7 % 4]",
      "  commit_arrive barrier2",
      'role "epilogue" (1 warpgroup)',
      "  barrier_wait barrier2",
      "  wait_smem_to_gmem 1",
      "  %14 = async_load_tmem tmem2[:, 0 +: 64] -> float32 (128, 64)",
      "  %15 = astype %14 -> float16 (128, 64)",
      "  store smem3[0, :, :] = %15",
      "  commit_smem",
      "  copy_smem_to_gmem smem3[0, :, :] -> arg2[m * 128 +: 128, n * 256 +: 64]",
    }, table.move(text, 1, 19, 1, {}))
    assert.equal(38, #k)
    assert.equal(38, k:len())
    assert.is_true(k.finished)
    assert.equal("matmul", k.name)
    k:close()
  end)

  it("writes the Lua line beside every operation", function()
    local k = tc.record {}
    tc.commit_smem()
    local line = debug.getinfo(1, "l").currentline - 1
    assert(load("\n(...).commit_gmem()", "@elsewhere/other.lua"))(tc)
    assert.matches(('^kernel "kernel", grid %%(1%%), recorded at [^\n]*record_spec%%.lua:%d\n'):format(line - 1),
      k:ops())
    assert.matches(("\ncommit_smem  %%-%%- line %d\ncommit_gmem  %%-%%- other%%.lua:2\n$"):format(line), k:ops())
    k:close()
  end)

  it("refuse a table that says nothing sensible", function()
    assert.equal("bad argument #1 to 'kernel' (table expected, such as { name = \"matmul\", args = {...}, " ..
      "grid = {...} }; got nil)", message(tc.kernel, nil))
    assert.equal("bad argument #1 to 'record' (unknown option 'gird' (did you mean 'grid'?))",
      message(tc.record, { gird = {1} }))
    assert.matches("field 'body' is missing", message(tc.kernel, {}))
    assert.matches("field 'args', entry 1: tc.gmem%(shape, dtype%) expected, got integer 3",
      message(tc.record, { args = {3} }))
    assert.matches("field 'grid', entry 2: an integer from 1 to 2147483647 expected, got integer 0",
      message(tc.record, { grid = {1, 0} }))
    assert.matches("grid_names must have the same length as grid, got grid=%(4,%), grid_names=%('a', 'b'%)",
      message(tc.record, { grid = {4}, grid_names = { "a", "b" } }))
    assert.matches("two axes of the grid and the cluster are named 'x'",
      message(tc.record, { grid = {4}, grid_names = {"x"}, cluster = {2}, cluster_names = {"x"} }))
    assert.matches("needs grid_names", message(tc.record, { grid = function() return {1} end }))
    assert.matches("unknown target 'sm_42'; there are sm_", message(tc.record, { target = "sm_42" }))
    assert.matches("no recording is open", message(tc.commit_smem))
  end)

  it("list the names of the axes, none where there are none", function()
    local k <close> = tc.record { grid = { 2, 3 }, cluster = { 2 } }
    assert.equal(0, #k.grid_names)
    assert.equal(0, #k.cluster_names)
    assert.same({ 2, 1 }, { k.grid_rank, k.cluster_rank })
    k:close()
    local named <close> = tc.record { grid = { 2, 3 }, grid_names = { "m", "n" } }
    assert.equal("{m, n}", tostring(named.grid_names))
    assert.equal(0, named.cluster_rank)
  end)

  it("allow one open recording at a time", function()
    local first = tc.record{ name = "first" }
    local line = debug.getinfo(1, "l").currentline - 1
    assert.matches("the recording of kernel 'first', opened at .*record_spec.lua:" .. line .. ", is still open",
      message(tc.record, {}))
    first:finish()
    local second = tc.record{}
    second:close()
    second:close()
    assert.equal("kernel (closed)", tostring(second))
    assert.matches("this kernel was closed", message(second.ops, second))
  end)

  it("give back the open recording", function()
    assert.is_nil(tc.recording())
    local k = tc.record{ name = "open" }
    assert.is_true(rawequal(k, tc.recording()))
    k = nil -- luacheck: ignore
    local smem = tc.smem({8}, "f32")
    assert.matches("tc.recording%(%) is that kernel", message(tc.record, {}))
    tc.recording():close()
    assert.is_nil(tc.recording())
    assert.is_false((pcall(smem.load, smem)))
    tc.kernel{ name = "inside", body = function() assert.matches("'inside'", tostring(tc.recording())) end }
    assert.is_nil(tc.recording())
  end)

  it("give up a recording that nobody holds", function()
    tc.record{ name = "lost" }
    local k = tc.record{ name = "next" }
    assert.matches("^kernel 'next', 0 operations so far", tostring(k))
    k:close()
  end)

  it("leave no recording open when the body raises", function()
    assert.matches("^boom", message(tc.kernel, { body = function() error("boom", 0) end }))
    assert.matches("no recording is open", message(tc.commit_smem))
    local marker = {}
    local ok, raised = pcall(tc.kernel, { body = function() error(marker) end })
    assert.is_false(ok)
    assert.equal(marker, raised)
  end)

  it("keep the traceback of an error in the body", function()
    local function inner() error "deep" end
    local _, trace = xpcall(tc.kernel, debug.traceback, { body = function() tc.range(2, function() inner() end) end })
    assert.matches("upvalue 'inner'", trace)
  end)

  it("refuse to yield out of a body, and stay usable", function()
    local resume = coroutine.wrap(function()
      return pcall(tc.kernel, { body = function() coroutine.yield() end })
    end)
    local ok, why = resume()
    assert.is_false(ok)
    assert.matches("attempt to yield across a C%-call boundary", why)
    tc.record{}:close()
  end)

  it("finish only once and only outside blocks", function()
    with({ name = "k" }, function(k)
      tc.range(2, function()
        assert.matches("finish%(%) inside a block", message(k.finish, k))
        assert.matches("close%(%) inside a block", message(k.close, k))
      end)
      assert.equal(k, k:finish())
      assert.matches("finished already", message(k.finish, k))
      assert.matches("no recording is open", message(tc.commit_smem))
    end)
  end)
end)

describe("A refused call", function()
  local before

  local function unchanged(k, fn, ...)
    before = k:ops()
    local text = message(fn, ...)
    assert.equal(before, k:ops())
    return text
  end

  it("leaves the recording as it was", function()
    with({ args = { tc.gmem({256, 256}, "f32") } }, function(k, a)
      local smem = tc.smem({128, 64}, "f32")
      local acc = tc.tmem({128, 64}, "f32")
      local full = tc.full({128, 64}, 1, "f32")
      unchanged(k, tc.smem, {128, 64}, "f32", { swizzle = 48 })
      unchanged(k, tc.tmem, {100, 64}, "f32")
      unchanged(k, tc.barrier, { num_barriers = 33 })
      unchanged(k, tc.mma, acc, smem, acc)
      unchanged(k, tc.copy_smem_to_gmem, smem, a)
      unchanged(k, tc.copy_gmem_to_smem, a, smem)
      unchanged(k, tc.async_load_tmem, smem)
      unchanged(k, tc.async_store_tmem, acc, tc.TMEM)
      unchanged(k, a.store, a, full)
      unchanged(k, a[0].store, a[0], full)
      local half, three = full:astype "f16", tc.iota({3}, 0, "f32")
      unchanged(k, function() return full + three end)
      unchanged(k, tc.where, true, full, half)
      unchanged(k, tc.role, { name = "late", warps = 1 })
    end)
  end)

  it("does not count the parts of a call that came before its error", function()
    with({}, function(k)
      local x = tc.full({128, 64}, 0, "f32")
      local row = tc.iota({64}, 0, "f16")
      local count = #k
      -- the splat of the condition is recorded before the refused operation, and goes with it
      assert.matches("dtypes are not converted silently", message(tc.where, true, x, row))
      assert.equal(count, #k)
    end)
  end)
end)

describe("A callback that raises", function()
  it("takes its half-recorded block back", function()
    with({ args = { tc.gmem({128, 64}, "f32") } }, function(k, a)
      local x = tc.axis_index(0)
      local before = k:ops()
      for _, block in ipairs{
        function(fn) tc.range(4, fn) end,
        function(fn) tc.loop(function() tc.stop(x:gt(1)); fn() end) end,
        function(fn) tc.when(x:gt(1), fn) end,
        function(fn) tc.when(x:gt(1), function() end, fn) end,
        function(fn) tc.range(4, function() tc.when(x:eq(0), function() tc.range(2, fn) end) end) end,
      } do
        assert.equal("boom", message(block, function()
          tc.smem({128, 64}, "f16")
          tc.barrier{}
          tc.var(1)
          a:store(tc.full({128, 64}, 0, "f32"))
          error("boom", 0)
        end))
        assert.equal(before, k:ops())
        assert.equal(0, #k)
      end
      -- the role-less operation is gone too: roles may still be made
      local r = tc.role{ name = "r", warpgroups = 1 }
      before = k:ops()
      assert.equal("boom", message(r, function() a:store(1); error("boom", 0) end))
      assert.equal(before, k:ops())
      r(function() a:store(1) end)
      assert.same({ 'role "r" (1 warpgroup)', "  %1 = full 1.0 -> float32 (128, 64)", "  store arg0 = %1" }, ops(k))
    end)
  end)

  it("makes what it allocated unusable", function()
    with({}, function()
      local smem, barrier, var, role, value
      pcall(tc.range, 4, function(i)
        smem, barrier, var, value = tc.smem({128, 64}, "f32"), tc.barrier{}, tc.var(1), i
        error "boom"
      end)
      assert.matches("in a block that failed, and is gone", message(function() return smem:at(0) end))
      assert.matches("in a block that failed, and is gone", message(tc.barrier_wait, barrier))
      assert.matches("was made in a block that failed", message(var.get, var))
      assert.matches("is used outside the tc.range", message(function() return value + 1 end))
      pcall(tc.range, 4, function() role = tc.role{ warps = 1 }; error "boom" end)
      assert.matches("was made in a block that failed", message(role, function() end))
    end)
  end)

  it("gives vars and roles back to whom they belonged", function()
    with({}, function()
      local one, two = tc.role{ name = "one", warps = 1 }, tc.role{ name = "two", warps = 1 }
      local v = tc.var(0)
      pcall(one, function() v:set(1); error "boom" end)
      two(function() v:set(2) end)
      assert.matches("belongs to role 'two'", message(one, function() v:set(1) end))
    end)
  end)
end)

describe("Objects", function()
  it("belong to their recording", function()
    local k, a = tc.record{ name = "old", args = { tc.gmem({8, 8}, "f32") } }
    local x, b = tc.axis_index(0), tc.barrier{}
    k:finish()
    assert.matches("this tcmma.ref belongs to kernel 'old' %(.*%), whose recording is finished",
      message(function() return a:at(0) end))
    with({ name = "new" }, function()
      assert.matches("this tcmma.scalar belongs to kernel 'old' %(.*%), not to 'new', which is being recorded",
        message(function() return x + 1 end))
      assert.matches("this tcmma.barrier belongs to kernel 'old'", message(tc.barrier_wait, b))
    end)
    assert.equal("GMEM ref, float32 (8, 8), argument 1", tostring(a))
    k:close()
    assert.equal("tcmma.ref of a closed kernel", tostring(a))
    assert.equal("tcmma.scalar of a closed kernel", tostring(x))
    assert.matches("belongs to a kernel that was closed", message(function() return a.shape end))
  end)

  it("name unknown fields and wrong selves", function()
    with({ args = { tc.gmem({8, 8}, "f32") } }, function(k, a)
      assert.equal("a tcmma.ref has no field 'shap' (did you mean 'shape'?)", message(function() return a.shap end))
      assert.equal("a tcmma.kernel has no field 'opts' (did you mean 'ops'?)", message(function() return k.opts end))
      assert.matches("calling 'ops' on bad self", message(function() k.ops() end))
      assert.matches("calling 'tile' on bad self", message(function() a.tile({0, 0}, {1, 1}) end))
    end)
  end)

  it("survive garbage collection of the kernel's handle", function()
    local a = select(2, tc.record{ args = { tc.gmem({8, 8}, "f32") } })
    collectgarbage()
    collectgarbage()
    assert.same({8, 8}, a.shape)
    a:at(0)
    a = nil -- luacheck: ignore
    tc.record{}:close()
  end)
end)

describe("a zero byte", function()
  it("is in no name that a kernel is given", function()
    local function refused(what, fn, ...)
      local text = message(fn, ...)
      assert.matches("\\0...\", which has a zero byte", text, 1, true)
      assert.matches(what, text, 1, true)
    end
    local args, body = { tc.gmem({ 64, 64 }, "f16") }, function() end
    refused("option 'name'", tc.kernel, { name = "a\0b", args = args, body = body })
    refused("option 'target'", tc.kernel, { target = "sm_100a\0b", args = args, body = body })
    refused("field 'grid_names'", tc.kernel, { grid = { 2 }, grid_names = { "x\0y" }, args = args, body = body })
    refused("dimension 1", tc.gmem, { "M\0N" }, "f16")
    refused("dtype expected", tc.gmem, { 64 }, "f16\0")
    with({ args = args, grid = { 2 }, grid_names = { "x" } }, function()
      refused("option 'name'", tc.smem, { 8, 64 }, "f16", { name = "a\0b" })
      refused("option 'name'", tc.barrier, { name = "a\0b" })
      refused("option 'name'", tc.role, { name = "a\0b", warps = 1 })
      refused("name of a grid or cluster axis", tc.axis_index, "x\0y")
      refused("message expected", tc.assert, tc.axis_index "x":eq(0), "a\0b")
    end)
  end)
end)

describe("a size", function()
  it("that is too large is not called too small", function()
    local huge = math.maxinteger
    assert.matches("size 1 of the shape must be at most 2^46, got integer 9223372036854775807",
      message(tc.zeros, { huge }, "f32"), 1, true)
    assert.matches("size 2 of the shape must be at most 2^46", message(tc.zeros, { 4, 1 << 47 }, "f32"), 1, true)
    assert.matches("the array is too large: more than 2^46 elements", message(tc.zeros, { 2, 1 << 46 }, "f32"), 1, true)
    assert.matches("field 'grid', entry 1: an integer from 1 to 2147483647 expected, got integer 2147483648",
      message(tc.kernel, { grid = { 1 << 31 }, body = function() end }), 1, true)
    with({}, function()
      assert.matches("size 2 of option 'tiling' must be an integer >= 1, got integer 0",
        message(tc.smem, { 8, 64 }, "f16", { tiling = { 8, 0 } }), 1, true)
    end)
  end)
end)
