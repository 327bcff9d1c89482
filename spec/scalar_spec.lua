local tc = require "tcmma"
local recording = require "recording"
local message, with = recording.message, recording.with

local grid = { grid = {4, 4}, grid_names = { "x", "y" }, cluster = {2}, cluster_names = {"c"},
               args = { tc.gmem({"M", 8}, "f32"), tc.gmem({16}, "i32") } }

-- Text of a scalar without its type.
local function text(v)
  return (tostring(v):gsub("^recorded %w+: ", ""))
end

describe("Recorded scalars", function()
  it("print as the expression they are", function()
    with(grid, function(_, a)
      local x, y = tc.axis_index "x", tc.axis_index "y"
      assert.equal("recorded s32: x", tostring(x))
      assert.equal("recorded predicate: x < y", tostring(x:lt(y)))
      assert.equal("(x * 4) + y", text(x * 4 + y))
      assert.equal("x // 3", text(x // 3))
      assert.equal("x % y", text(x % y))
      assert.equal("(x & 3) | (y << 2)", text(x & 3 | y << 2))
      assert.equal("x ~ (y >> 1)", text(x ~ (y >> 1)))
      assert.equal("-x", text(-x))
      assert.equal("~x", text(~x))
      assert.equal("5 - x", text(5 - x))
      assert.equal("min(x, 3)", text(tc.min(x, 3)))
      assert.equal("max(x, y)", text(tc.max(x, y)))
      assert.equal("M", text(a.shape[1]))
      assert.equal("c", text(tc.axis_index "c"))
      assert.equal("y", text(tc.axis_index(1)))
      assert.equal("select(x > y, x, 0)", text(x:gt(y):select(x, 0)))
      assert.equal("f32(x)", text(x:astype "f32"))
    end)
  end)

  it("fold constants as Lua computes them, wrapped to 32 bits", function()
    with(grid, function()
      local zero = tc.axis_index "x" * 0
      assert.equal("0", text(zero))
      for _, case in ipairs{ {7, 2}, {-7, 2}, {7, -2}, {-7, -2}, {6, 3}, {-6, 3}, {2^31 - 1 | 0, -1} } do
        local a, b = case[1], case[2]
        assert.equal(tostring(a // b), text((zero + a) // b))
        assert.equal(tostring(a % b), text((zero + a) % b))
        assert.equal(tostring((a - b + 2^31 | 0) % 2^32 - 2^31 | 0), text((zero + a) - b))
        assert.equal(tostring(a < b), text((zero + a):lt(b)))
        assert.equal(tostring(a >= b), text((zero + a):ge(b)))
      end
      assert.equal("-2147483648", text((zero + 2147483647) + 1))
      assert.equal("-2147483648", text((zero + -2147483648) // -1))
      assert.equal("-1", text((zero - 8) >> 31))
      assert.equal("0", text((zero + 1) << 32))
    end)
  end)

  it("simplify", function()
    with(grid, function()
      local x, y = tc.axis_index "x", tc.axis_index "y"
      for _, same in ipairs{ x + 0, x - 0, x * 1, x // 1, x | 0, x ~ 0, x << 0, x & -1, -(-x), ~~x,
                             tc.min(x, x), x + 3 - 3, x:eq(y):select(x, x), 0 + x, 1 * x } do
        assert.equal("x", text(same))
      end
      for _, none in ipairs{ x - x, x * 0, x % 1, x ~ x, x & 0 } do
        assert.equal("0", text(none))
      end
      assert.equal("x + 5", text(x + 2 + 3))
      assert.equal("x * 12", text(x * 3 * 4))
      assert.equal("x >= y", text(x:lt(y):lnot()))
      assert.equal("true", text(x:le(x)))
      assert.equal("x < y", text(x:lt(y):land(true)))
      assert.equal("false", text(x:lt(y):land(false)))
    end)
  end)

  it("share equal expressions", function()
    with(grid, function()
      local x = tc.axis_index "x"
      local v = x + 1
      for _ = 1, 30 do
        v = v * v -- 2^30 leaves as a tree
      end
      assert.matches("%.%.%.", text(v))
    end)
  end)

  it("refuse comparison operators, naming the methods", function()
    with(grid, function()
      local x, y = tc.axis_index "x", tc.axis_index "y"
      assert.matches("^'<' of recorded values: they have no value while the kernel is recorded. Use a:lt%(b%)",
        message(function() return x < y end))
      assert.matches("Use a:lt%(b%) %(for >, a:gt%(b%)%)", message(function() return x > 3 end))
      assert.matches("Use a:le%(b%)", message(function() return x <= 3 end))
      assert.matches("Use a:eq%(b%)", message(function() return x == y end))
      assert.matches("Use a:eq%(b%)", message(function() return x ~= y end))
    end)
  end)

  it("refuse to be host values", function()
    with(grid, function()
      local x = tc.axis_index "x"
      assert.matches("bad argument #1 to 'smem' %(size 1 of the shape must be an integer >= 1, got tcmma.scalar",
        message(function() tc.smem({x, 64}, "f16") end))
      assert.matches("when the kernel runs. Where a tile begins may be recorded: ref:tile(index, shape), "
        .. "ref:at(tc.ds(start, size))", message(function() tc.smem({x, 64}, "f16") end), 1, true)
      local counts = "(number expected, got tcmma.scalar (recorded; tc.range counts to it))"
      assert.matches("bad 'for' limit " .. counts, message(function() for i = 1, x do print(i) end end), 1, true)
      assert.matches("bad 'for' initial value " .. counts, message(function() for i = x, 9 do print(i) end end),
        1, true)
      assert.matches("bad 'for' step " .. counts, message(function() for i = 1, 9, x do print(i) end end), 1, true)
      assert.matches("cannot be put into a string", message(function() return "k = " .. x end))
      assert.matches("'#' of a recorded scalar", message(function() return #x end))
      assert.matches("^a tcmma.scalar has no field 'shape' %(it has: astype, ", message(function() return x.shape end))
      assert.equal("a tcmma.scalar cannot be indexed by integer 1", message(function() return x[1] end))
    end)
  end)

  it("keep s32, f32 and predicates apart", function()
    with(grid, function(_, a)
      local x, f = tc.axis_index "x", a[0][0]:load()
      assert.equal("recorded f32: %0", tostring(f))
      assert.equal("recorded f32: %0 + 1.0", tostring(f + 1))
      assert.equal("recorded f32: %0 / 2.0", tostring(f / 2))
      assert.equal("recorded s32: x + 2", tostring(x + 2.0))
      assert.matches("'/' of two s32 %(x, 2%): use //", message(function() return x / 2 end))
      assert.matches("'%+' of an s32 %(x%) and an f32 %(0.5%)", message(function() return x + 0.5 end))
      assert.matches("'%*' of an s32 %(x%) and an f32", message(function() return x * f end))
      assert.matches("'//' needs s32 operands", message(function() return f // 2 end))
      assert.matches("'%+' of predicates", message(function() return x:lt(1) + x:lt(2) end))
      assert.matches("':land' joins predicates", message(function() return x:land(x) end))
      assert.matches("integer 2147483648 does not fit a recorded s32", message(function() return x + (1 << 31) end))
      assert.matches("'%+' of tcmma.scalar %(recorded s32: x%) and nil", message(function() return x + nil end))
      assert.matches("division by zero", message(function() return x % 0 end))
      assert.equal("x < 1 and x != 0", (text(x:lt(1):land(x:ne(0))):gsub("[()]", "")))
      assert.equal("x < 1 or x == 0", (text(x:lt(1) | x:eq(0)):gsub("[()]", "")))
      assert.equal("select(x < 1, 1, 0)", text(x:lt(1):astype "i32"))
      assert.equal("x != 0", text(x:astype "bool"))
    end)
  end)

  it("know the axes", function()
    with(grid, function()
      assert.equal(4, tc.axis_size "y")
      assert.equal(2, tc.axis_size "c")
      assert.matches("Axis z does not refer to a GPU mesh axis (available axes: ('x', 'y', 'c'))",
        message(tc.axis_index, "z"), 1, true)
      assert.matches("grid axis 2 of a grid of 2", message(tc.axis_index, 2))
      assert.matches("bad argument #1 to 'axis_index' %(name of a grid or cluster axis expected, got boolean true%)",
        message(tc.axis_index, true))
    end)
    with({ grid = function() return {1} end, grid_names = {"g"} }, function()
      assert.equal("g", text(tc.axis_index "g"))
      assert.matches("known only at launch", message(tc.axis_size, "g"))
    end)
  end)

  it("divide up", function()
    assert.equal(4, tc.cdiv(10, 3))
    assert.equal(3, tc.cdiv(9, 3))
    assert.equal(0, tc.cdiv(0, 3))
    assert.equal(-3, tc.cdiv(-10, 3))
    with(grid, function(_, a)
      assert.equal("(M // 128) + min(M % 128, 1)", text(tc.cdiv(a.shape[1], 128)))
    end)
    assert.equal(2, tc.min(2, 3))
    assert.equal(3.5, tc.max(2, 3.5))
  end)

  it("limit the nesting of an expression", function()
    with(grid, function()
      local v = tc.axis_index "x"
      local y = tc.axis_index "y"
      assert.matches("more than 400 nested operations: keep the intermediate value in a tc.var", message(function()
        for _ = 1, 500 do v = v * y + 1 end
      end))
    end)
  end)
end)
