local tc = require "tcmma"

local function kernel(params, body, head)
  return (".version 8.0\n.target sm_90\n.address_size 64\n%s\n.visible .entry k(%s)\n{\n%s\n  ret;\n}\n")
    :format(head or "", params, body or "")
end

-- A kernel with one parameter of a type, for the conversion of arguments.
local function one(type)
  return tc.ptx(kernel(".param " .. type .. " x")):kernel("k")
end

local message_of = require "helper".message

describe("tc.ptx", function()
  it("reads the declarations of any PTX", function()
    local module = tc.ptx([[
// a comment with .entry in it
.version 8.6
.target sm_100a, debug
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.func helper(.param .b64 a) { .reg .pred %p<2>; { ret; } }
/* .entry commented(.param .u64 x) {} */
.visible .entry first(
  .param .u64 .ptr .global .align 16 a,
  .param .align 64 .b8 map[128],
  .param .f32 scale
)
.maxntid 128, 1, 1
.minnctapersm 1
{ ret; }
.entry second() .reqntid 32, 2 .reqnctapercluster 2, 1, 1 { .loc 1 1 1 ret; }
]])
    assert.equal("sm_100a", module.target)
    assert.equal("8.6", module.ptx_version)
    local kernels = module:kernels()
    assert.equal(2, #kernels)
    assert.same({ "first", "second" }, { kernels[1].name, kernels[2].name })
    assert.same({ { name = "a", type = ".u64", bytes = 8 }, { name = "map", type = ".b8[128]", bytes = 128 },
      { name = "scale", type = ".f32", bytes = 4 } }, kernels[1].params)
    assert.same({ 128, 1, 1 }, kernels[1].max_threads)
    assert.same({ 32, 2, 1 }, kernels[2].required_threads)
    assert.same({ 2, 1, 1 }, kernels[2].required_cluster)
    assert.equal("tcmma.module for sm_100a with 2 kernels", tostring(module))
    assert.equal("tcmma.function first(a .u64, map .b8[128], scale .f32)", tostring(module:kernel("first")))
  end)

  it("refuses what is no PTX", function()
    assert.error_matches(function() tc.ptx(12) end, "PTX text expected, got integer 12")
    assert.error_matches(function() tc.ptx("") end, "has no .version")
    assert.error_matches(function() tc.ptx("\127ELF\0\1") end, "is it a cubin")
    assert.error_matches(function() tc.ptx(".version 8.0") end, "has no .target")
    assert.error_matches(function() tc.ptx(".version 8.0\n.target sm_90\n") end, "there is no .entry in it")
  end)

  it("broken declarations are errors with their line, never a crash", function()
    local text = kernel(".param .u64 a, .param .u32 n[4]", "{ }")
    for length = 1, #text - 4 do pcall(tc.ptx, text:sub(1, length)) end
    assert.error_matches(function() tc.ptx(kernel("u64 a")) end, "PTX line 5: '.param' was expected %(at 'u64'%)")
    assert.error_matches(function() tc.ptx(kernel(".param .u64")) end, "PTX line 5: a parameter without type or name")
    assert.error_matches(function() tc.ptx(kernel(".param .b8 a[99999999999]")) end, "the number is too large")
  end)

  it("names the kernels that there are", function()
    local module = tc.ptx(kernel(""))
    assert.error_matches(function() module:kernel("j") end, "the module has no kernel 'j'; it has 'k'")
    assert.equal("k", module:kernel().name)
    assert.error_matches(function() module:kernel(3) end, "name of a kernel expected")
  end)

  it("finds a C++ function by its plain name", function()
    local module = tc.ptx((kernel(""):gsub("k%(", "_Z3addPfi(")))
    assert.equal("_Z3addPfi", module:kernel("add").entry)
    assert.equal("add", module:kernel("add").name)
    assert.error_matches(function() module:kernel("ad") end, "no kernel 'ad'")
  end)
end)

describe("arguments of a foreign kernel", function()
  it("are counted", function()
    local f = tc.ptx(kernel(".param .u64 a, .param .u64 b, .param .u32 n")):kernel()
    assert.matches("kernel 'k' takes 3 arguments (a .u64, b .u64, n .u32), got 4",
      message_of(f.launch, f, { args = { 1, 2, 3, 4 } }), 1, true)
    assert.matches("takes 3 arguments (a .u64, b .u64, n .u32), got 0", message_of(f.launch, f, {}), 1, true)
    local none = tc.ptx(kernel("")):kernel()
    assert.matches("takes 0 arguments (), got 1", message_of(none.launch, none, { args = { 1 } }), 1, true)
  end)

  it("a nil among them is named", function()
    local f = tc.ptx(kernel(".param .u64 a, .param .u64 b")):kernel()
    assert.matches("argument 1 of kernel 'k' (a .u64): an array, a number, a tensor map or a string of bytes is "
      .. "expected, got nil", message_of(f.launch, f, { args = { nil, 2 } }), 1, true)
  end)

  it("are checked for the range of the parameter's type", function()
    local ranges = {
      [".u8"] = { 0, 255 }, [".s8"] = { -128, 127 }, [".b8"] = { -128, 255 }, [".u16"] = { 0, 65535 },
      [".s16"] = { -32768, 32767 }, [".u32"] = { 0, 4294967295 }, [".s32"] = { -2147483648, 2147483647 },
      [".b32"] = { -2147483648, 4294967295 },
    }
    for type, range in pairs(ranges) do
      local f = one(type)
      for _, value in ipairs{ range[1] - 1, range[2] + 1 } do
        assert.matches(("argument 1 of kernel 'k' (x %s): an integer from %d to %d is expected, got integer %d")
          :format(type, range[1], range[2], value), message_of(f.launch, f, { args = { value } }), 1, true)
      end
    end
    assert.matches("an integer is expected, got number 1.5", message_of(one(".u32").launch, one(".u32"),
      { args = { 1.5 } }), 1, true)
    assert.matches("the number is out of range", message_of(one(".f32").launch, one(".f32"), { args = { 1e300 } }),
      1, true)
    assert.matches("an integer is expected", message_of(one(".u64").launch, one(".u64"), { args = { 0 / 0 } }), 1, true)
  end)

  it("are addresses where the text says that it is a pointer", function()
    local f = tc.ptx(kernel(".param .u64 .ptr .global .align 16 x, .param .u64 y", "{ ret; }")):kernel()
    assert.matches("argument 1 of kernel 'k' (x .u64): it is a pointer: an array, an address (array.address + bytes) "
      .. "or 0 is expected, got integer 17", message_of(f.launch, f, { args = { 17, 17 } }), 1, true)
    local array = tc.zeros({ 4 }, tc.f32)
    for _, value in ipairs{ 0, array, array.address + 8 } do f:launch{ args = { value, 17 } } end
  end)

  it("have to fit the parameter's kind", function()
    local array = tc.zeros({ 4 }, tc.f32)
    local map = tc.tensormap(array, { box = { 4 } })
    local f32, struct = one(".f32"), tc.ptx(kernel(".param .align 4 .b8 x[12]")):kernel()
    assert.matches("an array goes into a 64-bit parameter, got tcmma.array",
      message_of(f32.launch, f32, { args = { array } }), 1, true)
    assert.matches("a tensor map goes into a parameter of 128 bytes",
      message_of(f32.launch, f32, { args = { map } }), 1, true)
    assert.matches("a string must have the parameter's 12 bytes, not 3",
      message_of(struct.launch, struct, { args = { "abc" } }), 1, true)
    assert.matches("a string of its bytes is expected, got integer 1",
      message_of(struct.launch, struct, { args = { 1 } }), 1, true)
    assert.matches("got table", message_of(f32.launch, f32, { args = { {} } }), 1, true)
  end)

  it("have to live where the launch is", function()
    local f = tc.ptx(kernel(".param .u64 a, .param .u64 b")):kernel()
    local a = tc.zeros({ 4 }, tc.f32, { device = "emulator:sm_100a" })
    local b = tc.zeros({ 4 }, tc.f32, { device = "emulator:sm_90a" })
    assert.matches("argument 2 of kernel 'k' lives on emulator:sm_90a, but the launch is on emulator:sm_100a",
      message_of(f.launch, f, { args = { a, b } }), 1, true)
    assert.matches("argument 1 of kernel 'k' lives on emulator:sm_100a, but the launch is on emulator:sm_90a",
      message_of(f.launch, f, { args = { a, b }, device = "emulator:sm_90a" }), 1, true)
  end)

  it("code of another architecture is refused by name", function()
    local f = tc.ptx((kernel(""):gsub("sm_90", "sm_90a"))):kernel()
    assert.matches("kernel 'k' is code for sm_90a, which emulator:sm_100a (sm_100a) cannot run",
      message_of(f.launch, f, { device = "emulator:sm_100a" }), 1, true)
    assert.matches("code for sm_90a does not run on \"sm_100a\"",
      message_of(f.emulate, f, { target = "sm_100a" }), 1, true)
  end)
end)

describe("geometry of a launch", function()
  local f = tc.ptx(kernel("")):kernel()
  local fixed = tc.ptx((kernel(""):gsub("{", ".maxntid 64, 1, 1 .reqnctapercluster 2, 1, 1 {", 1))):kernel()

  local function refused(message, options, function_)
    local g = function_ or f
    assert.matches(message, message_of(g.launch, g, options), 1, true)
  end

  it("is checked", function()
    refused("option 'grid': size 2 must be an integer from 1", { grid = { 1, 0 } })
    refused("option 'grid': size 1 must be an integer from 1", { grid = { 1.5 } })
    refused("option 'grid' must be a table of 1 to 3 sizes (x, y, z), got one of 4", { grid = { 1, 1, 1, 1 } })
    refused("option 'grid' must be a table of 1 to 3 sizes (x, y, z), got string", { grid = "1" })
    refused("option 'grid': at most 65535 blocks along y and z", { grid = { 1, 65536 } })
    refused("option 'block': {2048, 1, 1} is more than 1024 threads", { block = { 2048 } })
    refused("option 'block': {1, 1, 65} is more than 1024 threads", { block = { 1, 1, 65 } })
    refused("option 'block': kernel 'k' takes at most 64 threads (.maxntid), got 96", { block = { 96 } }, fixed)
    refused("option 'cluster': kernel 'k' needs {2, 1, 1} (.reqnctapercluster), got {4, 1, 1}",
      { grid = { 4 }, cluster = { 4 } }, fixed)
    refused("option 'grid': 3 blocks along x cannot be cut into clusters of 2", { grid = { 3 } }, fixed)
    refused("option 'smem': a block of sm_100a has at most 232448 bytes of shared memory, got 240000",
      { smem = 240000, device = "emulator" })
    refused("did you mean 'block'", { blocks = { 1 } })
    refused("option 'stream' must be a stream", { stream = 1 })
  end)
end)

describe("tc.tensormap", function()
  local array = tc.zeros({ 64, 128 }, tc.f16)

  it("describes the array, innermost first", function()
    assert.equal("tcmma.tensormap f16 {128, 64}, box {64, 32}, swizzle 128B",
      tostring(tc.tensormap(array, { box = { 64, 32 }, swizzle = 128 })))
    assert.equal("tcmma.tensormap u8 {256, 8}, box {32, 8}, swizzle 32B",
      tostring(tc.tensormap(array, { dims = { 256, 8 }, strides = { 512 }, box = { 32, 8 }, dtype = "u8",
        swizzle = "32B" })))
  end)

  it("refuses what the hardware does not take, in the documented words", function()
    local function refused(message, options, a)
      assert.matches(message, message_of(tc.tensormap, a or array, options), 1, true)
    end
    refused("option 'box' is needed", {})
    refused("option 'box' must have 2 entries, one a dimension; got 1", { box = { 64 } })
    refused("Window shape must be in [0, 256], but got 257 at index", { box = { 64, 257 } })
    refused("Byte strides must be divisible by 16 and less than 2**40", { box = { 8, 8 }, strides = { 24 } })
    refused("the map describes 16640 bytes, the array f16[64, 128] has 16384",
      { box = { 8, 8 }, dims = { 128, 65 } })
    refused("option 'swizzle' must be one of", { box = { 8, 8 }, swizzle = "16B" })
    refused("option 'oob' must be one of \"zeros\", \"nan\"; got string \"one\"", { box = { 8, 8 }, oob = "one" })
    refused("did you mean 'box'", { bx = { 8 } })
  end)
end)
