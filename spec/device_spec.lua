local tc = require "tcmma"
local process = require "spec.process"

describe("tc.device", function()
  it("opens emulated devices, one object a name", function()
    local device = tc.device("emulator:sm_90a")
    assert.equal("emulator:sm_90a", device.name)
    assert.equal("sm_90a", device.target)
    assert.is_true(device.is_emulator)
    assert.is_true(rawequal(device, tc.device("emulator:sm_90a")))
    assert.equal("tcmma.device emulator:sm_90a (sm_90a)", tostring(device))
  end)

  it("\"emulator\" is the Blackwell one", function()
    assert.equal("emulator:sm_100a", tc.device("emulator").name)
  end)

  it("gives a device object back", function()
    local device = tc.device("emulator")
    assert.is_true(rawequal(device, tc.device(device)))
  end)

  it("says what properties a device has", function()
    local properties = tc.device("emulator").properties
    assert.equal(1024, properties.max_threads)
    assert.equal(232448, properties.smem_limit)
    assert.is_true(properties.memory > 2 ^ 30)
    assert.equal("emulated sm_100a", properties.description)
  end)

  it("an emulated device has the multiprocessors of an H200, B200 or B300, which a kernel reads too", function()
    for target, count in pairs { sm_90a = 132, sm_100a = 148, sm_103a = 148 } do
      local device = tc.device("emulator:" .. target)
      assert.equal(count, device.properties.sm_count)
      device:use()
      local out = tc.zeros({ 1 }, tc.u32)
      tc.ptx((([[
.version 8.8
.target TARGET
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .b32 %r0; .reg .b64 %rd0;
 ld.param.u64 %rd0, [out];
 mov.u32 %r0, %nsmid;
 st.global.u32 [%rd0], %r0;
 ret;
}
]]):gsub("TARGET", target))):kernel "k":emulate { grid = { 1 }, block = { 1 }, args = { out } }
      assert.equal(count, out:get(0))
    end
  end)

  it("a name that no machine could have is an error that lists the names", function()
    assert.error_matches(function() tc.device("emulatr") end, "there is no device 'emulatr'")
    assert.error_matches(function() tc.device("cuda:x") end, "there is no device 'cuda:x'")
    assert.error_matches(function() tc.device("cuda:-1") end, "there is no device 'cuda:%-1'")
    assert.error_matches(function() tc.device("emulator:sm_80") end, "emulator:sm_90a, emulator:sm_100a")
    assert.error_matches(function() tc.device(3) end, "name of a device expected")
  end)

  it("what this machine lacks is nil, a message and a code", function()
    local device, message, code = tc.device("cuda:1000")
    assert.is_nil(device)
    assert.is_string(message)
    assert.is_true(code == "no-driver" or code == "no-device")
  end)

  it("lists the devices that can be opened", function()
    local names = table.concat(tc.devices(), " ")
    assert.matches("emulator:sm_90a emulator:sm_100a emulator:sm_103a$", names)
  end)

  it("does not change the current device; tc.use and device:use do", function()
    local before = tc.device()
    tc.device("emulator:sm_103a")
    assert.is_true(rawequal(before, tc.device()))
    tc.use("emulator:sm_103a")
    assert.equal("emulator:sm_103a", tc.device().name)
    assert.equal("emulator:sm_103a", tc.zeros({ 4 }, tc.f32).device.name)
    before:use()
    assert.is_true(rawequal(before, tc.device()))
  end)

  it("synchronizes, and has streams and events", function()
    local device = tc.device("emulator")
    assert.is_true(rawequal(device, device:synchronize()))
    local stream, first, second = device:stream(), device:event(), device:event()
    first:record(stream)
    second:record(stream)
    assert.is_true(second:since(first) >= 0)
    stream:synchronize()
    assert.error_matches(function() second:since(device:event()) end, "was not recorded")
    assert.error_matches(function() second:since(tc.device("emulator:sm_90a"):event()) end, "the events are of")
  end)

  it("obeys TCMMA_DEVICE", function()
    local code = "local tc = require 'tcmma' print(tc.device().name)"
    assert.equal("emulator:sm_90a\n", (process.run(code, { TCMMA_DEVICE = "emulator:sm_90a" })))
    assert.matches("TCMMA_DEVICE %(tc.config.device%) is 'emulatr', but there is no device",
      (process.run(code, { TCMMA_DEVICE = "emulatr" })))
  end)

  it("methods name a wrong self", function()
    assert.error_matches(function() tc.device("emulator").synchronize() end, "synchronize")
    assert.error_matches(function() tc.device("emulator").use({}) end, "bad self")
  end)
end)

describe("tc.config", function()
  it("has a field for every variable", function()
    for _, setting in ipairs(tc.settings()) do
      assert.matches("^TCMMA_[A-Z_]+$", setting.variable)
      assert.is_true(#setting.doc > 20)
      local _ = tc.config[setting.field]
    end
  end)

  it("reads and writes with the field's type", function()
    assert.is_true(tc.config.cache)
    tc.config.cache = false
    assert.is_false(tc.config.cache)
    tc.config.cache = nil
    assert.is_true(tc.config.cache)
    tc.config.max_instructions = 123456
    assert.equal(123456, tc.config.max_instructions)
    tc.config.max_instructions = nil
    assert.equal(0, tc.config.max_instructions)
  end)

  it("refuses unknown fields and wrong types", function()
    assert.error_matches(function() return tc.config.cach end,
      "no field 'cach' %(did you mean 'cache' or 'cache_dir'%?%)")
    assert.error_matches(function() tc.config.devise = "x" end, "did you mean 'device'")
    assert.error_matches(function() tc.config.cache = "yes" end, "must be true or false")
    assert.error_matches(function() tc.config.emulator_threads = -1 end, "must be an integer")
    assert.error_matches(function() tc.config.emulator_mode = "quick" end, "\"fast\", \"check\" or \"random\"")
  end)

  it("a variable with nonsense in it is refused at require", function()
    assert.matches("the environment variable TCMMA_CACHE must be true or false, got 'maybe'",
      (process.run("require 'tcmma'", { TCMMA_CACHE = "maybe" })))
  end)

  it("versions name what was found", function()
    local versions = tc.versions()
    assert.equal(_VERSION, versions.lua)
    if versions.nvjitlink then assert.matches("^nvJitLink %d+%.%d+$", versions.nvjitlink) end
    if versions.nvrtc then assert.matches("^NVRTC %d+%.%d+$", versions.nvrtc) end
  end)
end)
