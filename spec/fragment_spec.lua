local tc = require "tcmma"
local recording = require "recording"
local message, with, ops = recording.message, recording.with, recording.ops

local spec = { grid = {4}, grid_names = {"x"}, args = { tc.gmem({128, 64}, "f32") } }

local function tail(k, from)
  return table.move(ops(k), from, #k, 1, {})
end

describe("Fragments", function()
  it("have shape and dtype", function()
    with(spec, function(_, a)
      local f = tc.full({128, 64}, 0, "f16")
      assert.same({128, 64}, f.shape)
      assert.equal(tc.float16, f.dtype)
      assert.equal(2, f.rank)
      assert.equal("fragment float32 (128, 64)", tostring(a:load()))
      assert.equal("fragment int32 (8,)", tostring(tc.iota({8}, 0)))
      assert.matches("^a tcmma.fragment has no field 'size' %(it has: .*, rank, reduce, shape%)$",
        message(function() return f.size end))
    end)
  end)

  it("compute by elements with numbers and scalars of any side", function()
    with(spec, function(k)
      local x = tc.axis_index "x"
      local f = tc.full({128, 64}, 1.5, "f32")
      assert.equal(5, select("#", f + 1, 2 - f, f * x, x / f, -f))
      assert.same({
        "%0 = full 1.5 -> float32 (128, 64)",
        "%1 = full 1.0 -> float32 ()",
        "%2 = + %0, %1 -> float32 (128, 64)",
        "%3 = full 2.0 -> float32 ()",
        "%4 = - %3, %0 -> float32 (128, 64)",
        "%5 = full f32(x) -> float32 ()",
        "%6 = * %0, %5 -> float32 (128, 64)",
        "%7 = full f32(x) -> float32 ()",
        "%8 = / %7, %0 -> float32 (128, 64)",
        "%9 = neg %0 -> float32 (128, 64)",
      }, ops(k))
    end)
  end)

  it("broadcast as numpy does", function()
    with(spec, function(k)
      local m = tc.full({128, 64}, 0, "f32")
      local row, column, line = tc.iota({64}, 0, "f32"), tc.full({128, 1}, 1, "f32"), tc.full({1, 64}, 2, "f32")
      local from = #k + 1
      assert.equal(3, select("#", m + row, column * m, line - column))
      assert.same({
        "%4 = broadcast %1 axis=0 -> float32 (128, 64)",
        "%5 = + %0, %4 -> float32 (128, 64)",
        "%6 = broadcast %2 axis=1 -> float32 (128, 64)",
        "%7 = * %6, %0 -> float32 (128, 64)",
        "%8 = broadcast %3 axis=0 -> float32 (128, 64)",
        "%9 = broadcast %2 axis=1 -> float32 (128, 64)",
        "%10 = - %8, %9 -> float32 (128, 64)",
      }, tail(k, from))
      local sum = m:reduce("sum", 1)
      assert.matches("the shapes of '%-' do not broadcast: float32 %(128, 64%) and float32 %(128,%).\n" ..
        "A per%-row vector %(m,%) needs :broadcast%({m, n}, 1%)", message(function() return m - sum end))
      from = #k + 1
      assert.equal("fragment float32 (128, 64)", tostring(m - sum:broadcast({128, 64}, 1)))
      assert.same({
        "%12 = broadcast %11 axis=1 -> float32 (128, 64)",
        "%13 = - %0, %12 -> float32 (128, 64)",
      }, tail(k, from))
    end)
  end)

  it("compare to bool, for tc.where", function()
    with(spec, function(k)
      local f = tc.full({128, 64}, 0, "f32")
      local x = tc.axis_index "x"
      local positive = f:gt(0)
      assert.equal("fragment bool (128, 64)", tostring(positive))
      assert.equal("fragment float32 (128, 64)", tostring(tc.where(positive & ~f:eq(1), f, 0)))
      assert.equal("fragment float32 (128, 64)", tostring(tc.where(x:lt(2), f, 0)))
      assert.equal("recorded s32: select(x < 2, x, 7)", tostring(tc.where(x:lt(2), x, 7)))
      assert.matches("= full x < 2 %-> bool %(%)\n", table.concat(ops(k), "\n"))
      assert.matches("the condition of tc.where must be a bool fragment", message(tc.where, f, f, 0))
      for _, name in ipairs{ "lt", "le", "gt", "ge", "eq", "ne" } do
        assert.equal(tc.bool, f[name](f, 1).dtype)
      end
    end)
  end)

  it("have functions", function()
    with(spec, function(k)
      local f = tc.full({128, 64}, 1, "f32")
      for _, name in ipairs{ "exp2", "log2", "exp", "log", "rsqrt", "sqrt", "tanh", "abs" } do
        local g = tc[name](f)
        assert.equal("fragment float32 (128, 64)", tostring(g))
        assert.matches("= " .. name .. " %%0 ", ops(k)[#k])
      end
      assert.equal("fragment float32 (128, 64)", tostring(tc.max(f, 0)))
      assert.matches("= max %%0, ", ops(k)[#k])
      assert.equal("fragment float32 (128, 64)", tostring(tc.min(0, f)))
      assert.equal("fragment float32 (128, 64)", tostring(tc.fma(f, 2, f)))
      assert.matches("= fma %%0, %%%d+, %%0 ", ops(k)[#k])
      assert.equal(3, tc.abs(-3))
      assert.equal("recorded s32: max(x, -x)", tostring(tc.abs(tc.axis_index "x")))
      assert.matches("fragment expected, got string", message(tc.exp2, "three"), 1, true)
      assert.matches("bad argument #1 to 'tanh' %(fragment expected, got no value%)", message(tc.tanh))
    end)
  end)

  it("reduce", function()
    with(spec, function()
      local f = tc.full({128, 64}, 1, "f32")
      assert.same({128}, f:reduce("max", 1).shape)
      assert.same({64}, f:reduce("sum", 0).shape)
      assert.same({}, f:reduce("min", 0):reduce("min", 0).shape)
      assert.same({64}, f:reduce("absmax", 0).shape)
      assert.matches("\"max\", \"sum\", \"min\", \"absmax\" or \"absmin\" expected, got string \"mean\"",
         message(f.reduce, f, "mean", 0))
      assert.matches("an integer from 0 to 1 expected, got integer 2", message(f.reduce, f, "max", 2))
      local v = f:reduce("max", 1)
      assert.matches("axis 1 of a fragment float32 %(128,%)", message(v.reduce, v, "max", 1))
    end)
  end)

  it("convert only when told", function()
    with(spec, function()
      local f, h = tc.full({128, 64}, 1, "f32"), tc.full({128, 64}, 1, "f16")
      assert.matches("'%+' of float32 %(128, 64%) and float16 %(128, 64%): dtypes are not converted silently; use " ..
        ":astype%(tc.float32%) or :astype%(tc.float16%)", message(function() return f + h end))
      assert.equal("fragment float16 (128, 64)", tostring(f:astype "f16" + h))
      assert.equal(f.dtype, f:astype(tc.float32).dtype)
      local e = f:astype "e4m3"
      assert.matches("'%+' is not computed in float8_e4m3fn but in float32", message(function() return e + e end))
      assert.matches("float8_e4m3fn is not reduced", message(e.reduce, e, "sum", 0))
      for _, dtype in ipairs { "f64", "u2", "e2m3", "e3m2" } do
        assert.matches("4, 8, 16 or 32 bits an element", message(f.astype, f, dtype))
        assert.matches("4, 8, 16 or 32 bits an element", message(tc.full, { 64, 64 }, 0, dtype))
      end
      assert.matches("a bool fragment comes from a comparison", message(f.astype, f, "bool"))
    end)
  end)

  it("keep integers and floats apart", function()
    with(spec, function()
      local i, u, f = tc.iota({8}, 0), tc.iota({8}, 0, "u32"), tc.full({8}, 0, "f32")
      assert.equal("fragment int32 (8,)", tostring((i << 2 | 1) ~ (i >> 1) & ~i))
      assert.matches("'/' needs floating point, got int32", message(function() return i / 2 end))
      assert.matches("'exp2' needs floating point, got int32", message(tc.exp2, i))
      assert.matches("'&' needs integers or bool, got float32", message(function() return f & f end))
      assert.matches("'neg' of an unsigned fragment", message(function() return -u end))
      assert.matches("0.5 is no integer; the fragment is int32", message(function() return i + 0.5 end))
      assert.matches("300 does not fit into int8 %(%-128 to 127%)", message(tc.full, {8}, 300, "i8"))
      assert.equal("fragment int32 (8,)", tostring(i % 2 + i // 2))
      assert.matches("'%%' needs int32 or uint32, got float32", message(function() return f % 2 end))
      assert.matches("'//' needs int32 or uint32, got float32", message(function() return f // 2 end))
      assert.matches("'//' by zero", message(function() return i // 0 end))
      assert.matches("a number expected for a float32 fragment, got the predicate true",
        message(function() return f + true end))
    end)
  end)

  it("refuse to be host values", function()
    with(spec, function()
      local f, g = tc.full({8}, 0, "f32"), tc.full({8}, 1, "f32")
      assert.matches("'<' of fragments: they have no value while the kernel is recorded. Use a:lt%(b%)",
        message(function() return f < g end))
      assert.matches("Use a:le%(b%)", message(function() return f >= g end))
      assert.matches("Use a:eq%(b%)", message(function() return f == g end))
      assert.matches("cannot be put into a string", message(function() return "f" .. f end))
      assert.matches("'%+' of tcmma.fragment %(fragment float32 %(8,%)%) and table",
        message(function() return f + {} end))
    end)
  end)

  it("fit into 128 registers a thread", function()
    with(spec, function()
      tc.full({128, 128}, 0, "f32")
      tc.full({128, 256}, 0, "f16")
      assert.matches("a fragment float32 %(128, 256%) takes 256 registers in each of the 128 threads of role 'main'" ..
        "; at most 128", message(tc.full, {128, 256}, 0, "f32"))
    end)
    with(spec, function()
      local r = tc.role{ name = "wide", warpgroups = 2 }
      r(function() tc.full({128, 256}, 0, "f32") end)
    end)
  end)

  it("have legal shapes", function()
    with(spec, function()
      assert.matches("a shape of at most 2 dimensions expected, got 3", message(tc.full, {1, 2, 3}, 0, "f32"))
      assert.matches("a fragment has 1 or 2 dimensions, got none", message(tc.full, {}, 0, "f32"))
      assert.matches("is too large", message(tc.full, {100000}, 0, "f32"))
      assert.matches("tc.iota makes 16%-bit and 32%-bit numbers, got int8", message(tc.iota, {8}, 0, "i8"))
      assert.matches("axis 1 of a fragment of 1 dimension; axes count from 0", message(tc.iota, {8}, 1))
      local v = tc.iota({8}, 0)
      assert.matches("a fragment int32 %(8,%) cannot be repeated along axis 0 to int32 %(4, 7%): int32 %(7,%) expected",
        message(v.broadcast, v, {4, 7}, 0))
    end)
  end)

  it("never leave their role or block", function()
    with(spec, function(_, a)
      local one, two = tc.role{ name = "one", warpgroups = 1 }, tc.role{ name = "two", warpgroups = 1 }
      local f, g
      one(function()
        f = tc.full({128, 64}, 0, "f32")
        tc.range(4, function() g = f + 1 end)
        assert.matches("the fragment float32 %(128, 64%) is used outside the tc.range at line",
          message(function() return g + 1 end))
      end)
      two(function()
        assert.matches("the fragment float32 %(128, 64%) belongs to role 'one' .* and is used in role 'two'.\n" ..
          "Roles share no registers", message(a.store, a, f))
      end)
    end)
  end)
end)

describe("Operations of the tensor core", function()
  it("take refs and options", function()
    with({ args = { tc.gmem({128, 64}, "f16") } }, function(k, g)
      local a, b = tc.smem({128, 64}, "f16"), tc.smem({64, 64}, "f16")
      local acc = tc.tmem({128, 64}, "f32")
      local bar = tc.barrier{ orders_tensor_core = true }
      tc.mma(acc, a, b, { accumulate = false })
      tc.mma(acc, a, b:T(), { barrier = bar })
      tc.async_store_tmem(acc, 0)
      tc.commit_tmem()
      tc.wait_load_tmem()
      tc.commit_gmem()
      tc.copy_smem_to_gmem(a, g, { commit_group = false, reduction_op = "add" })
      tc.wait_smem_to_gmem(0, { wait_read_only = true })
      assert.same({
        "mma tmem2 = smem0 @ smem1",
        "mma tmem2 += smem0 @ smem1[:, :].T barrier=barrier0",
        "%2 = full 0.0 -> float32 (128, 64)",
        "async_store_tmem tmem2 = %2",
        "commit_tmem",
        "wait_load_tmem",
        "commit_gmem",
        "copy_smem_to_gmem smem0 -> arg0 reduction_op=add commit_group=false",
        "wait_smem_to_gmem 0 read_only",
      }, ops(k))
      assert.equal("bad argument #2 to 'mma' (tcmma.ref expected, got integer 5)", message(tc.mma, acc, 5, b))
      assert.matches("unknown option 'barier' %(did you mean 'barrier'%?%)",
        message(tc.mma, acc, a, b, { barier = bar }))
      assert.matches("option 'barrier' must be a tc.barrier, got tcmma.ref",
        message(tc.mma, acc, a, b, { barrier = a }))
      assert.matches("option 'accumulate' must be a boolean or a comparison such as k:gt%(0%), got integer 1",
        message(tc.mma, acc, a, b, { accumulate = 1 }))
      assert.matches("option 'a_scale' must be a ref, got integer 1", message(tc.mma, acc, a, b, { a_scale = 1 }))
      assert.matches("^src must be a reference, got integer 5", message(tc.copy_gmem_to_smem, 5, a, bar))
      assert.matches("no argument expected, got integer 1", message(tc.commit_smem, 1))
      assert.matches("an integer from 0 to 63 expected", message(tc.wait_smem_to_gmem, -1))
      assert.matches("option 'reduction_op' must be one of add, min, max, .*; got \"mul\"",
        message(tc.copy_smem_to_gmem, a, g, { reduction_op = "mul" }))
    end)
  end)
end)
