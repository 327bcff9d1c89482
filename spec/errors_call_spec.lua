-- Documented messages where an argument, an option or a place is what the condition is about.
local tc = require "tcmma"
local helper = require "helper"
local refuses = helper.refuses

local options = { args = { tc.gmem({ 64, 64 }, tc.f16), tc.gmem({ 4 }, tc.i32) }, grid = { 2, 3 },
  grid_names = { "y", "x" }, cluster = { 2 }, cluster_names = { "c" } }

describe("tc.ds refuses", function()
  refuses("a recorded size", "Dynamic slice size not supported.", function(a)
    local size = tc.axis_index "x" + 1
    return function() a:at(tc.ds(0, size)) end, function() a:at(tc.ds(size, 8)) end
  end, options)
  refuses("a negative size", "length must be non-negative, got -4", function(a)
    return function() a:at(tc.ds(0, -4)) end, function() a:at(tc.ds(0, 4)) end
  end, options)
end)

describe("In the block of a role of warps,", function()
  local function inside(title, expected, body)
    refuses(title, expected, function(a)
      local one, group = tc.role{ name = "one", warps = 1 }, tc.role{ name = "group", warpgroups = 1 }
      local smem = tc.smem({ 64, 64 }, tc.f16)
      return function() one(function() body(a, smem) end) end, function() group(function() body(a, smem) end) end
    end, options)
  end
  inside("a tile is not loaded", "Can only load scalars in warp-level code.", function(a) a:load() end)
  inside("a tile is not stored", "Can only store scalars in warp-level lowering.", function(_, smem) smem:store(1) end)

  it("the message says which role", function()
    helper.recording(options, function(_, a)
      local one = tc.role{ name = "one", warps = 4 }
      assert.matches("'load' needs a role of whole warpgroups; role 'one' %(line %d+%) has 4 warps",
        helper.message(function() one(function() a:load() end) end))
    end)
  end)
end)

describe("Loads and stores refuse", function()
  local function stores(title, expected, value)
    refuses(title, expected, function(a)
      return function() a:store(value) end, function() a:store(tc.full({ 64, 64 }, 0, tc.f16)) end
    end, options)
  end
  stores("a table", "Can only store scalars or vectors (got table).", {})
  stores("a string", 'Can only store scalars or vectors (got string "x").', "x")
  stores("nothing", "Can only store scalars or vectors (got nil).", nil)
  refuses("what is no reference to load from", "Can only load from references (got integer 5).", function(a)
    local load = a.load
    return function() load(5) end, function() load(a) end
  end, options)
  refuses("what is no reference to store to", "Can only store to references (got integer 5).", function(a)
    local store = a.store
    return function() store(5, 1) end, function() store(a, 1) end
  end, options)
  refuses("a table for tensor memory", "TMEM stores expect a FragmentedArray, got: table", function()
    local acc = tc.tmem({ 128, 64 }, tc.f32)
    return function() tc.async_store_tmem(acc, {}) end, function() tc.async_store_tmem(acc, 0) end
  end)
end)

describe("A store with a barrier refuses", function()
  refuses("a group of them", "Expected a single barrier, got a barrier reference with shape (2,)", function()
    local tile, group = tc.smem({ 64, 64 }, tc.f32), tc.barrier{ num_barriers = 2 }
    local peer, value = tc.cluster_ref(tile, 0), tc.full({ 64, 64 }, 0, tc.f32)
    return function() peer:store(value, { barrier = group }) end,
      function() peer:store(value, { barrier = group[1] }) end
  end, options)
end)

describe("tc.axis_index refuses", function()
  refuses("an unknown axis",
    "Axis q does not refer to a GPU mesh axis (available axes: ('y', 'x', 'c')) " ..
    "or a JAX mesh axis (available axes: ())",
    function() return function() tc.axis_index "q" end, function() tc.axis_index "c" end end, options)
  refuses("any name where nothing has one",
    "No axis names are available. Make sure you are using `tc.kernel` with `grid_names` or `cluster_names`.",
    function() return function() tc.axis_index "x" end, function() tc.axis_index(0) end end, { grid = { 2 } })
end)

describe("tc.union refuses", function()
  refuses("what is no whole number of bytes", "Only byte-aligned shapes are supported. Got shape: int4(3,)", function()
    local odd, even, other = tc.smem({ 3 }, tc.int4), tc.smem({ 4 }, tc.int4), tc.smem({ 64 }, tc.f32)
    return function() tc.union(odd, other) end, function() tc.union(even, other) end
  end)
end)

describe("tc.semaphore_signal refuses", function()
  refuses("another scope", "Unsupported memory_scope: cluster", function(_, flags)
    return function() tc.semaphore_signal(flags[0], 1, { memory_scope = "cluster" }) end,
      function() tc.semaphore_signal(flags[0], 1, { memory_scope = "gpu" }) end
  end, options)
end)

describe("tc.kernel refuses", function()
  local function mesh(title, expected, bad, good)
    it(title, function()
      local function record(o) tc.record(o):close() end
      assert.equal(expected, helper.first_line(helper.message(record, bad)))
      record(good)
    end)
  end
  mesh("a cluster of four dimensions",
    "cluster= must be at most 3D, got cluster=(1, 1, 1, 2), cluster_names=('a', 'b', 'c', 'd').",
    { cluster = { 1, 1, 1, 2 }, cluster_names = { "a", "b", "c", "d" } },
    { cluster = { 1, 1, 2 }, cluster_names = { "a", "b", "c" } })
  mesh("fewer names than axes of the grid",
    "grid_names must have the same length as grid, got grid=(2, 3), grid_names=('x',).",
    { grid = { 2, 3 }, grid_names = { "x" } }, { grid = { 2, 3 }, grid_names = { "y", "x" } })
  mesh("more names than axes of the grid",
    "grid_names must have the same length as grid, got grid=nil, grid_names=('y', 'x').",
    { grid_names = { "y", "x" } }, { grid_names = { "x" } })
  mesh("more names than axes of the cluster",
    "cluster_names must have the same length as cluster, got cluster=(2,), cluster_names=('a', 'b').",
    { cluster = { 2 }, cluster_names = { "a", "b" } }, { cluster = { 2 }, cluster_names = { "a" } })
  mesh("names without a cluster",
    "cluster_names must have the same length as cluster, got cluster=nil, cluster_names=('a',).",
    { cluster_names = { "a" } }, { cluster = { 1 }, cluster_names = { "a" } })

  local threads = "Requested too many CUDA threads per block. Each Mosaic thread corresponds to 128 CUDA threads. "
    .. "At most 8 are supported, got "
  refuses("a role of nine warpgroups", threads .. "9", function()
    return function() tc.role{ name = "all", warpgroups = 9 } end,
      function() tc.role{ name = "all", warpgroups = 8 } end
  end, options)
  refuses("nine warpgroups", threads .. "9", function()
    tc.role{ name = "first", warpgroups = 7 }
    return function() tc.role{ name = "last", warpgroups = 2 } end,
      function() tc.role{ name = "last", warpgroups = 1 } end
  end, options)
  refuses("33 warps", threads .. "9", function()
    return function() tc.role{ name = "all", warps = 33 } end, function() tc.role{ name = "all", warps = 32 } end
  end, options)
end)

describe("A call of a kernel refuses", function()
  local kernel = tc.kernel{ name = "two", args = { tc.gmem({ 64, 64 }, tc.f16), tc.gmem({ "N" }, tc.f32) },
    body = function() end }
  local a, b = tc.zeros({ 64, 64 }, tc.f16), tc.zeros({ 8 }, tc.f32)
  local function call(title, expected, ...)
    local arguments = table.pack(...)
    it(title, function()
      kernel(a, b)
      assert.equal(expected, helper.first_line(helper.message(function()
        kernel(table.unpack(arguments, 1, arguments.n))
      end)))
    end)
  end
  call("another number of arrays", "Invalid argument structure: expected 2 arrays, got 1 value", a)
  call("another shape", "Argument shape mismatch: expected (64, 64), got (64, 32)", tc.zeros({ 64, 32 }, tc.f16), b)
  call("another dtype", "Argument dtype mismatch: expected float32, got int32", a, tc.zeros({ 8 }, tc.i32))
end)
