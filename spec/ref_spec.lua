local tc = require "tcmma"
local recording = require "recording"
local message, with, ops = recording.message, recording.with, recording.ops

local spec = {
  grid = {4}, grid_names = {"x"},
  args = { tc.gmem({"M", 64}, "f16"), tc.gmem({256, 128}, "f32"), tc.gmem({2, 3, 4, 5, 8}, "i32") },
}

describe("tc.gmem", function()
  it("describes an argument", function()
    assert.equal("gmem float16 (M, 64)", tostring(tc.gmem({"M", 64}, "f16")))
    assert.equal("gmem float32 (7,)", tostring(tc.gmem({7}, tc.float32)))
    assert.matches("dimension 1: an integer >= 1 or a name expected, got integer 0", message(tc.gmem, {0}, "f32"))
    assert.matches("dimension 2: an integer >= 1 or a name expected, got string \"a b\"",
      message(tc.gmem, {1, "a b"}, "f32"))
    assert.matches("a shape of 1 to 8 dimensions expected, got 9", message(tc.gmem, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "f32"))
    assert.matches("unknown dtype 'f61' %(did you mean", message(tc.gmem, {1}, "f61"))
    assert.matches("dtype expected", message(tc.gmem, {1}))
  end)

  it("binds equal names to one value", function()
    with({ args = { tc.gmem({"M", "N"}, "f16"), tc.gmem({"N", "M"}, "f16") } }, function(_, a, b)
      assert.equal("recorded s32: M", tostring(a.shape[1]))
      assert.equal("recorded s32: 0", tostring(a.shape[1] - b.shape[2]))
      assert.equal("recorded s32: M * N", tostring(a.shape[1] * b.shape[1]))
    end)
  end)
end)

describe("Allocations", function()
  it("have space, shape and dtype", function()
    with(spec, function()
      local s, t = tc.smem({4, 128, 64}, "f16"), tc.tmem({128, 256}, tc.float32)
      assert.same({4, 128, 64}, s.shape)
      assert.equal(3, s.rank)
      assert.equal(tc.float16, s.dtype)
      assert.equal(tc.SMEM, s.space)
      assert.equal(128, s.swizzle)
      assert.equal(tc.TMEM, t.space)
      assert.is_false(t.collective)
      assert.equal("default", t.layout)
      assert.equal("SMEM ref, float16 (4, 128, 64), swizzle 128, allocated at line 34", tostring(s))
      assert.matches('^SMEM ref, float32 %(8,%), allocated at .* %("bias"%)$',
        tostring(tc.allocate(tc.SMEM, {8}, "f32", { name = "bias" })))
      assert.equal(tc.TMEM, tc.allocate("tmem", {128, 32}, "f32").space)
    end)
  end)

  it("are checked at the call", function()
    with(spec, function(k)
      assert.matches("GMEM is not allocated by a kernel", message(tc.allocate, tc.GMEM, {8}, "f32"))
      assert.matches("memory space expected: tc.GMEM, tc.SMEM or tc.TMEM; got string \"smen\"",
        message(tc.allocate, "smen", {8}, "f32"))
      assert.matches("shape expected, a table such as {128, 64}; got integer 8", message(tc.smem, 8, "f32"))
      assert.matches("the shape is empty; one element is {1}", message(tc.smem, {}, "f32"))
      assert.matches("size 2 of the shape must be an integer >= 1, got integer 0", message(tc.smem, {8, 0}, "f32"))
      assert.matches("unknown option 'swizle' %(did you mean 'swizzle'%?%)",
        message(tc.smem, {8}, "f32", { swizle = 32 }))
      assert.matches("option 'swizzle' must be 32, 64, 128, \"128B_atom_32B\" or \"none\", got boolean true",
        message(tc.smem, {8, 32}, "f32", { swizzle = true }))
      assert.matches("unknown TMEM layout 'scale' %(did you mean 'scales'%?%)",
        message(tc.tmem, {128, 32}, "f32", { layout = "scale" }))
      assert.matches("option 'collective' must be a boolean", message(tc.tmem, {128, 32}, "f32", { collective = 1 }))
      assert.matches("options table expected, got integer 128", message(tc.smem, {8, 32}, "f32", 128))
      assert.not_matches("smem%d", k:ops())
    end)
  end)
end)

describe("Views", function()
  local function operand(k, ref)
    local n = #ops(k)
    ref:load()
    return (ops(k)[n + 1]:gsub("^%%%d+ = load ", ""):gsub(" %->.*", ""))
  end

  it("index, slice and tile", function()
    with(spec, function(k, a, b, c)
      local x = tc.axis_index "x"
      assert.equal("arg1[x, 5]", operand(k, b[x][5]))
      assert.equal("arg1[x, 5]", operand(k, b:at(x, 5)))
      assert.equal("arg1[3, :]", operand(k, b[3]))
      assert.equal("arg1[:, 7]", operand(k, b:at(tc.all, 7)))
      assert.equal("arg1[x * 8 +: 8, 7]", operand(k, b:at(tc.ds(x * 8, 8), 7)))
      assert.equal("arg1[x * 64 +: 64, 64 +: 32]", operand(k, b:tile({x, 2}, {64, 32})))
      assert.equal("arg1[(x * 64) + 8 +: 8, 64 +: 32]", operand(k, b:tile({x, 2}, {64, 32}):at(tc.ds(8, 8))))
      assert.equal("arg0[x * 128 +: 128, :]", operand(k, a:tile({x, 0}, {128, 64}):at()):gsub("0 %+: 64", ":"))
      assert.equal("arg2[0, x, 2, 3, :]", operand(k, c[0]:at(x, 2, 3)))
      assert.same({64, 32}, b:tile({x, 2}, {64, 32}).shape)
      assert.same({4, 5, 8}, c[0][x].shape)
      assert.same({}, b[0][0].shape)
      assert.equal(0, b[0][0].rank)
    end)
  end)

  it("keep named dimensions", function()
    with(spec, function(_, a)
      assert.equal("recorded s32: M", tostring(a.shape[1]))
      assert.equal("recorded s32: M", tostring(a:at(tc.all, 3).shape[1]))
      assert.same({64}, a[5].shape)
      assert.equal("GMEM ref, float16 (M, 64), argument 1", tostring(a))
      assert.matches("a fragment has a fixed shape, dimension 'M' is known at launch", message(a.load, a))
    end)
  end)

  it("may overhang GMEM as tiles", function()
    with(spec, function(_, a, b)
      assert.same({128, 128}, b:tile({7, 1}, {128, 128}).shape)
      a:tile({1000, 0}, {128, 64})
      local s = tc.smem({128, 128}, "f32")
      s:tile({1, 0}, {64, 128})
      assert.matches("is out of bounds for shape %(128, 128%)", message(s.tile, s, {2, 0}, {64, 128}))
      assert.matches("tile index %-1 along axis 0 is negative", message(b.tile, b, {-1, 0}, {8, 8}))
    end)
  end)

  it("transpose SMEM and GMEM", function()
    with(spec, function(_, _, b, c)
      assert.same({128, 256}, b:T().shape)
      assert.same({256, 128}, b:T():T().shape)
      assert.same({2, 3, 4, 8, 5}, c:T().shape)
      assert.matches("transposed view of %(256, 128%)", tostring(b:T()))
      assert.equal(tostring(b), tostring(b:T():T()))
      local t = tc.tmem({128, 64}, "f32")
      assert.matches("^Can't transpose a TMEM reference.", message(t.T, t))
      assert.matches("only a ref of 2 or more dimensions can be transposed", message(b[0].T, b[0]))
      assert.same({8, 16}, b:T():at(tc.ds(0, 8), tc.ds(16, 16)).shape)
    end)
  end)

  it("are checked", function()
    with(spec, function(_, _, b)
      local x = tc.axis_index "x"
      local s = tc.smem({4, 128, 64}, "f16")
      assert.matches("^Index 4 along axis 0 is out of bounds for shape %(4, 128, 64%)",
        message(function() return s[4] end))
      assert.matches("^Index %-1 along axis 0 is out of bounds", message(function() return s[-1] end))
      assert.matches("^Unsupported index type: number 1.5",
        message(function() return s:at(1.5) end))
      assert.matches("^Unsupported index type: recorded condition",
        message(function() return s:at(x:lt(1)) end))
      assert.matches("a tcmma.ref cannot be indexed by boolean true", message(function() return s[true] end))
      assert.matches("3 indices into a ref of 2 dimensions", message(b.at, b, 0, 0, 0))
      assert.matches("bad argument #1 to 'tile' %(list of tile indices expected",
        message(function() b:tile(0, {8, 8}) end))
      assert.matches("2 tile indices, but a tile of 1 dimensions", message(b.tile, b, {0, 0}, {8}))
      assert.matches("a tile needs one index and one size a dimension: 1 given, the ref has 2",
        message(b.tile, b, {0}, {8}))
      assert.matches("bad argument #2 to 'ds' %(an integer from 1", message(tc.ds, 0, 0))
      assert.matches("the field 'shape' of a ref cannot be set", message(function() s.shape = {} end))
    end)
  end)

  it("of TMEM are sliced along columns only", function()
    with(spec, function()
      local t = tc.tmem({128, 256}, "f32")
      assert.same({128, 64}, t:at(tc.all, tc.ds(64, 64)).shape)
      assert.matches("^TMEM can only be sliced, not indexed", message(function() return t[0] end))
      assert.matches("^TMEM cannot be sliced along rows", message(t.at, t, tc.ds(0, 64)))
    end)
  end)
end)

describe("Loads and stores", function()
  it("move scalars and tiles", function()
    with(spec, function(k, _, b, c)
      local x = tc.axis_index "x"
      local s = tc.smem({128, 128}, "f32")
      b[x][0]:store(2)
      b[x][1] = 0.5
      c[0][0][0][0][0] = c[1][0][0][0][0]:load() + 1
      local f = b:tile({0, 0}, {128, 128}):load()
      s:store(f)
      b:tile({1, 0}, {128, 128}):store(0)
      b[3] = 1
      assert.same({
        "store arg1[x, 0] = 2.0",
        "store arg1[x, 1] = 0.5",
        "%2 = load arg2[1, 0, 0, 0, 0]",
        "store arg2[0, 0, 0, 0, 0] = %2 + 1",
        "%4 = load arg1[0 +: 128, 0 +: 128] -> float32 (128, 128)",
        "store smem0 = %4",
        "%6 = full 0.0 -> float32 (128, 128)",
        "store arg1[128 +: 128, 0 +: 128] = %6",
        "%8 = full 1.0 -> float32 (128,)",
        "store arg1[3, :] = %8",
      }, ops(k))
    end)
  end)

  it("of TMEM are asynchronous", function()
    with(spec, function()
      local t = tc.tmem({128, 64}, "f32")
      local load = "Loads from TMEM are asynchronous operations and cannot be performed using the usual syntax. " ..
        "Please use tc.async_load_tmem instead."
      local store = "Stores to TMEM are asynchronous operations and cannot be performed using the usual syntax. " ..
        "Please use tc.async_store_tmem instead."
      assert.equal(load, (message(t.load, t):match "^[^\n]+"))
      assert.equal(store, (message(t.store, t, 1):match "^[^\n]+"))
      assert.equal(store, (message(function() t[0] = 1 end):match "^[^\n]+"))
      assert.equal(store, (message(function() t[tc.all] = 1 end):match "^[^\n]+"))
    end)
  end)

  it("check what is stored", function()
    with(spec, function(_, a, b, c)
      local f = tc.full({8}, 0, "f32")
      local element, row = b[0][0], b[0]
      assert.matches("^Can only store scalars or vectors %(got no value%)",
        message(function() element:store() end))
      assert.matches("a fragment float32 %(8,%) stored into one element", message(element.store, element, f))
      assert.matches("^The stored value has shape %(8,%), but the target reference has shape %(128,%)",
        message(row.store, row, f))
      assert.matches("^The stored value has dtype float32, but the target reference has dtype int32",
        message(function() c[0][0][0][0] = f end))
      assert.matches("0.5 stored into int32: an integer is needed", message(function() c[0][0][0][0][0] = 0.5 end))
      assert.matches("0.5 is no integer; the fragment is int32", message(function() c[0][0][0][0] = 0.5 end))
      assert.equal("a fragment has 1 or 2 dimensions", message(c.load, c):match "^[^;]+")
      assert.matches("is out of bounds", message(function() a:at(0, 64):load() end))
    end)
  end)
end)

describe("tc.union", function()
  it("lets allocations share storage", function()
    with(spec, function(k)
      local a, b, c = tc.smem({128, 64}, "f16"), tc.smem({64, 64}, "f16"), tc.smem({64, 64}, "f16")
      local u = tc.union(a, { b, c })
      assert.equal("union of 2 alternatives in SMEM", tostring(u))
      assert.equal(tc.SMEM, u.space)
      assert.matches("smem0: .*, union 0 member 0", k:ops())
      assert.matches("smem2: .*, union 0 member 1", k:ops())
      assert.matches("^Ref unions can't be assigned to.", message(function() u[0] = 1 end))
      assert.matches("^layout attribute is only defined for TMEM refs", message(function() return u.layout end))
      assert.matches("^collective attribute is only defined for TMEM refs", message(function() return u.collective end))
    end)
  end)

  it("is checked before anything changes", function()
    with(spec, function(k)
      local a, t = tc.smem({128, 64}, "f16"), tc.tmem({128, 64}, "f32")
      local s = tc.tmem({128, 64}, "f32", { collective = true })
      assert.matches("memory space", message(tc.union, a, t))
      assert.matches("^Some aliased TMEM references are collective and some are not.", message(tc.union, t, s))
      assert.matches("names one allocation twice", message(tc.union, a, a))
      assert.matches("a union has two or more members", message(tc.union, a))
      assert.matches("ref or list of refs expected, got integer 3", message(tc.union, a, 3))
      assert.not_matches("union", k:ops())
    end)
  end)

  it("goes with a block that fails", function()
    with(spec, function(k)
      local a, b = tc.smem({128, 64}, "f16"), tc.smem({128, 64}, "f16")
      pcall(tc.range, 2, function() tc.union(a, b); error "boom" end)
      assert.not_matches("union", k:ops())
      tc.union(a, b)
    end)
  end)
end)

describe("Barriers", function()
  it("are arrays", function()
    with(spec, function(k)
      local x = tc.axis_index "x"
      local b = tc.barrier{ num_arrivals = 2, num_barriers = 4, name = "ring" }
      assert.equal(4, #b)
      assert.equal(1, #b[0])
      assert.equal(2, b.num_arrivals)
      assert.is_false(b.orders_tensor_core)
      assert.matches("^barrier 'ring', 2 arrivals, array of 4, made at", tostring(b))
      tc.barrier_arrive(b[x % 4])
      tc.barrier_wait(b[3])
      assert.same({ "barrier_arrive ring[x % 4]", "barrier_wait ring[3]" }, ops(k))
      assert.matches("^Barrier offset 4 is out of bounds", message(function() return b[4] end))
      assert.matches("^Expected a dynamic index or an integer, got boolean true",
        message(function() return b[true] end))
      assert.matches("is one of an array already", message(function() return b[0][0] end))
      assert.matches("^Operation is only valid for a single barrier, but barrier ref contains 4",
        message(tc.barrier_wait, b))
      assert.matches("^barrier must be a SMEM reference, got integer 3", message(tc.barrier_wait, 3))
      assert.matches("option 'parity' must be 0, 1 or a recorded s32, got integer 2",
        message(tc.barrier_wait, b[0], { parity = 2 }))
      assert.matches("^Num arrivals must be at least 1, but got 0", message(tc.barrier, { num_arrivals = 0 }))
      assert.matches("^Only up to 32 barriers per group supported", message(tc.barrier, { num_barriers = 33 }))
      assert.matches("^Barriers are not arrays", message(function() b[0] = 1 end))
    end)
  end)

  it("of a cluster name its axes", function()
    with({ grid = {4}, cluster = {2, 1}, cluster_names = { "a", "b" } }, function(k)
      tc.cluster_barrier{ collective_axes = { "a", "b" } }
      assert.matches("barrier0: cluster_barrier, num_arrivals 1, num_barriers 1 collective_axes=\"a\",\"b\"", k:ops())
      assert.matches("^Unknown cluster axis c, available axes: %['a', 'b'%]",
        message(tc.cluster_barrier, { collective_axes = "c" }))
      assert.matches("option 'collective_axes' is missing", message(tc.cluster_barrier, {}))
      assert.matches("name of a cluster axis expected, got integer 1",
        message(tc.cluster_barrier, { collective_axes = {1} }))
    end)
  end)
end)
