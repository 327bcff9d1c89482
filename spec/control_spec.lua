local tc = require "tcmma"
local recording = require "recording"
local message, with, ops = recording.message, recording.with, recording.ops

local spec = { name = "k", grid = {4}, grid_names = {"x"}, args = { tc.gmem({128, 64}, "f32"), tc.gmem({16}, "i32") } }

describe("tc.range", function()
  it("records a half-open loop", function()
    with(spec, function(k, _, table_ref)
      local x = tc.axis_index "x"
      tc.range(8, function(i) tc.range(x, x + 8, 2, function(j) tc.assert((i + j):ge(0), "sum") end) end)
      local n = table_ref[3]:load()
      tc.range(n, function() end)
      assert.same({
        "range i0 = 0 to 8 step 1",
        "  range i1 = x to x + 8 step 2",
        '    assert (i0 + i1) >= 0, "sum"',
        "%3 = load arg1[3]",
        "range i4 = 0 to %3 step 1",
      }, ops(k))
    end)
  end)

  it("checks its arguments", function()
    with(spec, function()
      assert.equal("bad argument #2 to 'range' (function that records the block expected, got nil)",
        message(tc.range, 4))
      assert.equal("bad argument #1 to 'range' (end of the range: integer or recorded s32 expected, got string \"4\")",
        message(tc.range, "4", print))
      assert.matches("bad argument #4 to 'range' %(function", message(tc.range, 0, 4, 1))
      assert.matches("step of a tc.range must be positive, got %-1; to count down", message(tc.range, 4, 0, -1, print))
      assert.matches("end of the range: integer", message(tc.range, 2.5, print))
    end)
  end)

  it("keeps its counter and values inside", function()
    with(spec, function(_, a)
      local counter, value, element
      tc.range(4, function(i) counter, value, element = i, i * 2 + 1, a[i][0]:load() end)
      local line = debug.getinfo(1, "l").currentline - 1
      assert.matches("the counter of a tc.range is used outside the tc.range at line " .. line,
        message(function() return counter + 1 end))
      assert.matches("the value %(i0 %* 2%) %+ 1 is used outside the tc.range",
        message(function() return value + 1 end))
      assert.matches("set a tc.var that was made before the block", message(function() return element + 1 end))
      assert.matches("is used outside the tc.range", message(function() return a[counter] end))
    end)
  end)

  it("limits the depth", function()
    with(spec, function(k)
      local function nest(depth) tc.range(2, function() if depth > 0 then nest(depth - 1) end end) end
      assert.matches("control flow is nested more than 64 deep", message(nest, 100))
      assert.equal(0, #k)
      nest(40)
    end)
  end)
end)

describe("tc.loop", function()
  it("ends by tc.stop", function()
    with(spec, function(k)
      local v = tc.var(0)
      tc.loop(function()
        v:set(v:get() + 1)
        tc.stop(v:get():ge(10))
        tc.when(v:get():eq(5), function() tc.stop() end)
      end)
      assert.same({
        "var var0 = 0",
        "loop",
        "  %2 = var.get var0",
        "  var.set var0 = %2 + 1",
        "  %4 = var.get var0",
        "  stop %4 >= 10",
        "  %6 = var.get var0",
        "  when %6 == 5",
        "    stop true",
      }, ops(k))
    end)
  end)

  it("refuses what would never end, or end another loop", function()
    with(spec, function()
      local x = tc.axis_index "x"
      local r = tc.role{ name = "r", warps = 1 }
      assert.equal("tc.stop outside a tc.loop", message(tc.stop))
      assert.equal("this tc.loop has no tc.stop and would never end", message(tc.loop, function() end))
      assert.matches("tc.stop cannot leave the tc.loop at .-:%d+ from inside the tc.range at line", message(tc.loop,
        function() tc.range(4, function() tc.stop(x:gt(0)) end) end))
      assert.matches("from inside the role block at line", message(tc.loop,
        function() r(function() tc.stop(x:gt(0)) end) end))
      assert.matches("condition expected: a boolean or a comparison such as k:gt%(0%), got tcmma.scalar",
        message(tc.stop, x))
    end)
  end)
end)

describe("tc.when", function()
  it("records both branches", function()
    with(spec, function(k)
      local x = tc.axis_index "x"
      tc.when(x:lt(2), function() tc.assert(x:lt(2)) end, function() tc.assert(x:ge(2), 'no "two"') end)
      assert.same({
        "when x < 2",
        '  assert x < 2, "assertion failed!"',
        "else",
        '  assert x >= 2, "no \\"two\\""',
      }, ops(k))
    end)
  end)

  it("chooses at once what is constant", function()
    with(spec, function(k)
      local x = tc.axis_index "x"
      local taken = {}
      tc.when(true, function() taken[1] = "then" end, error)
      tc.when(false, error, function() taken[2] = "else" end)
      tc.when((x * 0):eq(0), function() taken[3] = "folded" end, error)
      tc.when(false, error)
      assert.same({ "then", "else", "folded" }, taken)
      assert.equal(0, #k)
    end)
  end)

  it("hides the values of its branches", function()
    with(spec, function(_, a)
      local x, v, w = tc.axis_index "x", nil, nil
      tc.when(x:lt(2), function() v = a[0][x]:load() end, function()
        assert.matches("is used outside the tc.when", message(function() return v + 1 end))
        w = a[0][0]:load()
      end)
      assert.matches("is used outside the tc.when at line", message(function() return v + 1 end))
      assert.matches("is used outside the else part of the tc.when at line", message(function() return w + 1 end))
    end)
  end)
end)

describe("Roles", function()
  it("are made of warps or warpgroups", function()
    with(spec, function()
      assert.equal("role 'load', 2 warps", tostring(tc.role{ name = "load", warps = 2 }))
      assert.equal("role 'math', 1 warpgroup", tostring(tc.role{ name = "math", warpgroups = 1 }))
      assert.equal("role2", tc.role{ warps = 1 }.name)
      assert.matches("either warps or warpgroups %(of 4 warps%); none is given", message(tc.role, { name = "a" }))
      assert.matches("both are given", message(tc.role, { warps = 1, warpgroups = 1 }))
      assert.matches("there is a role 'load' already %(.-:%d+%)", message(tc.role, { name = "load", warps = 1 }))
      assert.matches("option 'warps' must be an integer from 1 to 32767", message(tc.role, { warps = 0 }))
      assert.matches("padded to 1152 threads; a block has at most 1024",
        message(tc.role, { name = "b", warpgroups = 7 }))
      assert.matches("role 'load' is called with the function that records its block, got integer 3",
        message(function() tc.role{ name = "x", warps = 1 }(3) end):gsub("'x'", "'load'"))
    end)
  end)

  it("share the control flow around them", function()
    with(spec, function(k)
      local one, two = tc.role{ name = "one", warps = 1 }, tc.role{ name = "two", warps = 1 }
      local b = tc.barrier{}
      tc.range(4, function(t)
        one(function() tc.barrier_arrive(b) end)
        two(function() tc.barrier_wait(b, { parity = t % 2 }) end)
      end)
      assert.same({
        "range i0 = 0 to 4 step 1",
        '  role "one" (1 warp)',
        "    barrier_arrive barrier0",
        '  role "two" (1 warp)',
        "    barrier_wait barrier0 parity=i0 % 2",
      }, ops(k))
    end)
  end)

  it("do not nest and are made in shared code", function()
    with(spec, function()
      local one, two = tc.role{ name = "one", warps = 1 }, tc.role{ name = "two", warps = 1 }
      one(function()
        assert.matches("role blocks do not nest: 'two' inside a block of 'one'", message(two, function() end))
        assert.matches("role blocks do not nest: 'one' inside a block of 'one'", message(one, function() end))
        assert.matches("tc.role inside the block of role 'one'", message(tc.role, { warps = 1 }))
      end)
    end)
  end)

  it("keep operations out of shared code", function()
    with(spec, function(k)
      tc.role{ name = "one", warps = 1 }
      assert.matches("'commit_smem' stands outside every role block, in a kernel with roles %('one'%)",
        message(tc.commit_smem))
      assert.matches("'full' stands outside", message(tc.full, {8}, 0, "f32"))
      local smem = tc.smem({64}, "f32")
      assert.matches("'load' stands outside", message(function() return smem[0]:load() end))
      assert.matches("'store' stands outside", message(function() smem:store(1) end))
      assert.matches("'async_store_tmem' stands outside",
        message(function() tc.async_store_tmem(tc.tmem({128, 64}, "f32"), 1) end))
      assert.equal(0, #k)
    end)
  end)

  it("come before the operation that makes a kernel role-less", function()
    with(spec, function()
      tc.commit_smem()
      local line = debug.getinfo(1, "l").currentline - 1
      assert.matches("this kernel has no roles: 'commit_smem' at .-:" .. line .. " stands outside every role block",
        message(tc.role, { warps = 1 }))
    end)
  end)

  it("come before a loop over work, whose own operations stand in it", function()
    with({ name = "k", args = {}, grid = { 4 }, grid_names = { "m" } }, function()
      local line = debug.getinfo(1, "l").currentline + 1
      tc.dynamic_scheduling_loop("m", function()
        assert.matches("^tc.role in a loop %(.-:" .. line
          .. "%) that operations of a kernel without roles stand in already.\nMake the roles before the loop",
          message(tc.role, { warps = 1 }))
      end)
    end)
  end)

  it("share no registers, on either side of an operator", function()
    with(spec, function()
      local f
      tc.role{ name = "one", warpgroups = 1 }(function() f = tc.full({8, 8}, 0, "f32") end)
      assert.matches("^the fragment float32 %(8, 8%) belongs to role 'one'", message(function() return f + 1 end))
      assert.matches("^the fragment float32 %(8, 8%) belongs to role 'one'", message(function() return 1 + f end))
    end)
  end)

  it("share no registers", function()
    with(spec, function(_, a)
      local one, two = tc.role{ name = "one", warps = 1 }, tc.role{ name = "two", warps = 1 }
      local shared, mine = a[0][0]:load(), nil
      one(function() mine = a[0][1]:load(); return shared + mine end)
      two(function()
        assert.matches("the value %%%d+ belongs to role 'one' %(the role block at line %d+%) and is used in role 'two'",
          message(function() return mine + shared end))
      end)
      assert.matches("and is used in shared code", message(function() return mine + 1 end))
      one(function()
        assert.matches("is used outside the role block at line", message(function() return mine + 1 end))
      end)
    end)
  end)

  it("need whole warpgroups for tiles", function()
    with(spec, function(_, a)
      local one = tc.role{ name = "one", warps = 4 }
      one(function()
        assert.matches("'load' needs a role of whole warpgroups; role 'one' %(.-:%d+%) has 4 warps",
          message(a.load, a))
        assert.equal("recorded f32: %1", tostring(a[0][0]:load()))
      end)
    end)
  end)
end)

describe("tc.var", function()
  it("has the type of its first value", function()
    with(spec, function()
      local x = tc.axis_index "x"
      local i, f, p = tc.var(0), tc.var(0.0), tc.var(false)
      assert.matches("^var of recorded s32, made at", tostring(i))
      f:set(1)
      i:set(2.0)
      i:set(x)
      p:set(x:lt(1))
      assert.matches("holds an s32 scalar, got an f32 scalar", message(i.set, i, 0.5))
      assert.matches("holds an f32 scalar, got an s32 scalar", message(f.set, f, x))
      assert.matches("holds a predicate, got an s32 scalar", message(p.set, p, 1))
      assert.matches("holds a predicate, got a fragment", message(p.set, p, tc.full({8}, 0, "f32")))
      assert.equal("bad argument #1 to 'set' (number, boolean, recorded scalar or fragment expected, got no value)",
        message(function() i:set() end))
    end)
  end)

  it("holds fragments of one shape and dtype, in roles", function()
    with(spec, function()
      local r = tc.role{ name = "r", warpgroups = 1 }
      local late
      r(function()
        local v = tc.var(tc.full({128, 64}, 0, "f32"))
        v:set(v:get() + 1)
        assert.equal("fragment float32 (128, 64)", tostring(v:get()))
        assert.matches("holds a fragment float32 %(128, 64%), got float16 %(128, 64%)",
          message(function() v:set(v:get():astype "f16") end))
        assert.matches("holds a fragment, got an s32 scalar", message(v.set, v, 1))
        late = v
      end)
      assert.matches("used outside the block that made it", message(late.get, late))
    end)
  end)

  it("belongs to the role that sets it", function()
    with(spec, function()
      local one, two = tc.role{ name = "one", warps = 1 }, tc.role{ name = "two", warps = 1 }
      local v, w, u, free = tc.var(0), tc.var(0), tc.var(0), tc.var(0)
      one(function() v:set(1); u:get() end)
      one(function() v:set(v:get() + 1) end)
      assert.matches("belongs to role 'one', which sets it; it is read in shared code", message(v.get, v))
      assert.matches("it is set in shared code", message(v.set, v, 1))
      two(function()
        assert.matches("belongs to role 'one', which sets it; it is read in role 'two'", message(v.get, v))
        assert.matches("read by another role; a var that role 'two' sets belongs to that role alone",
          message(u.set, u, 1))
      end)
      w:set(3)
      one(function()
        assert.matches("is set in shared code, hence nowhere else; it is set in role 'one'", message(w.set, w, 1))
        w:get()
      end)
      free:get()
      one(function()
        free:get()
        assert.matches("is read by shared code", message(free.set, free, 1))
      end)
    end)
  end)
end)

describe("tc.print, tc.assert and tc.set_max_registers", function()
  it("record", function()
    with(spec, function(k)
      local x = tc.axis_index "x"
      tc.print("x = {}, {{{}}}\n", x, 1.5)
      tc.print("{}", tc.full({8}, 1, "i32"))
      tc.print "hello"
      tc.set_max_registers(232)
      assert.same({
        'print "x = {}, {{{}}}\\n", x, 1.5',
        "%1 = full 1 -> int32 (8,)",
        'print "{}", %1',
        'print "hello"',
        "set_max_registers 232",
      }, ops(k))
    end)
  end)

  it("check their arguments", function()
    with(spec, function()
      local x = tc.axis_index "x"
      local f = tc.full({8}, 1, "i32")
      assert.matches("the format has 1 '{}', but 2 values are given", message(tc.print, "{}", x, x))
      assert.matches("the format has 2 '{}', but 1 value is given", message(tc.print, "{} {}", x))
      assert.matches("a brace is written '{{' or '}}'", message(tc.print, "{x}", x))
      assert.matches("a fragment is printed alone", message(tc.print, "{} {}", x, f))
      assert.matches("format string expected", message(tc.print, x))
      assert.matches("bad argument #2 to 'print' %(number, boolean, recorded scalar or fragment expected, got table%)",
        message(tc.print, "{}", {}))
      assert.matches("condition expected", message(tc.assert, x))
      assert.matches("message expected, a string; got integer 3", message(tc.assert, true, 3))
      assert.matches("a multiple of 8 expected, got 100 %(nearest: 104%)", message(tc.set_max_registers, 100))
      assert.matches("an integer from 24 to 256 expected, got integer 16", message(tc.set_max_registers, 16))
    end)
    with(spec, function()
      local r = tc.role{ name = "r", warps = 1 }
      r(function()
        assert.matches("registers are moved between whole warpgroups; role 'r'", message(tc.set_max_registers, 64))
      end)
    end)
  end)
end)
