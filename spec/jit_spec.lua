local tc = require "tcmma"
local process = require "spec.process"

local GOOD = [[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry store(.param .u64 .ptr .global .align 4 out, .param .u32 value)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}
]]

local has_assembler = tc.versions().nvjitlink ~= nil
local has_nvrtc = tc.versions().nvrtc ~= nil
local with_assembler = has_assembler and it or pending
local with_nvrtc = has_nvrtc and it or pending

describe("assembling PTX", function()
  with_assembler("gives a cubin, an ELF file, and the assembler's log", function()
    local cubin, log = tc.ptx(GOOD):cubin()
    assert.equal("\127ELF", cubin:sub(1, 4))
    assert.matches("Compiling entry function 'store' for 'sm_90a'", log)
  end)

  with_assembler("reads registers and spills from the log", function()
    local info = tc.ptx(GOOD):kernel("store"):info()
    assert.is_true(info.registers >= 2 and info.registers <= 16)
    assert.equal(0, info.spill_stores)
    assert.equal(0, info.spill_loads)
    assert.equal(0, info.smem)
  end)

  with_assembler("keeps apart the kernels of one log", function()
    local two = GOOD .. GOOD:match("(%.visible.*)"):gsub("store%(", "shared(")
      :gsub("ret;", ".shared .b8 buffer[512]; mov.u32 %%r1, buffer; st.shared.u32 [%%r1], %%r1; bar.sync 0; ret;")
    local module = tc.ptx(two)
    assert.equal(0, module:kernel("store"):info().smem)
    assert.equal(512, module:kernel("shared"):info().smem)
    assert.equal(1, module:kernel("shared"):info().barriers)
  end)

  with_assembler("plain code is assembled for a later target on request, arch-specific code is not", function()
    local module = tc.ptx((GOOD:gsub("sm_90a", "sm_90")))
    assert.equal("\127ELF", module:cubin{ target = "sm_100a" }:sub(1, 4))
    assert.error_matches(function() tc.ptx(GOOD):cubin{ target = "sm_100a" } end,
      "code for sm_90a cannot be assembled for \"sm_100a\"")
  end)

  with_assembler("what the assembler rejects is an error with its log", function()
    local bad = tc.ptx((GOOD:gsub("st%.global%.u32", "st.global.u33")))
    local ok, message = pcall(bad.cubin, bad)
    assert.is_false(ok)
    assert.matches("the assembler refuses the PTX", message, 1, true)
    assert.matches("line 10", message, 1, true)
  end)

  it("a missing library is named, with the places and the variable", function()
    local empty = process.folder()
    local output = process.run([[
      local tc = require "tcmma"
      local module = tc.ptx(]] .. ("%q"):format(GOOD) .. [[)
      print(module:cubin())
      print(tc.cuda("__global__ void f() {}"))
      print(tc.versions().nvjitlink, tc.versions().nvrtc)]], { TCMMA_CUDA_HOME = empty })
    process.remove(empty)
    assert.matches("nil\tnvJitLink, the assembler %(libnvJitLink.so.13 or libnvJitLink.so.12%) was not found", output)
    assert.matches("Set TCMMA_CUDA_HOME", output, 1, true)
    assert.matches(empty .. "/lib64/libnvJitLink.so.13", output, 1, true)
    assert.matches("\tno-assembler\n", output, 1, true)
    assert.matches("nil\tNVRTC, the compiler of CUDA C", output, 1, true)
    assert.matches("\tno-library\n", output, 1, true)
    assert.matches("nil\tnil\n$", output)
  end)
end)

describe("compiling CUDA C", function()
  with_nvrtc("gives PTX for the target that was asked for", function()
    local module = tc.cuda("extern \"C\" __global__ void f(int *p) { *p = 1; }", { target = "sm_100a" })
    assert.equal("sm_100a", module.target)
    assert.matches(".visible .entry f(", module:ptx(), 1, true)
  end)

  with_nvrtc("takes the current device's target where none is given", function()
    assert.equal(tc.device().target, tc.cuda("__global__ void f() {}").target)
  end)

  with_nvrtc("finds the toolkit's headers", function()
    local module = tc.cuda("#include <cuda_fp16.h>\n__global__ void f(__half *p) { *p = __float2half(1.0f); }")
    assert.equal(1, #module:kernels())
  end)

  with_nvrtc("passes options to the compiler", function()
    local source = "__global__ void f(int *p) { *p = VALUE; }"
    assert.matches("77", tc.cuda(source, { options = { "-DVALUE=77" } }):ptx(), 1, true)
    assert.error_matches(function() tc.cuda(source) end, "identifier \"VALUE\" is undefined")
  end)

  with_nvrtc("an error is the compiler's log with the given file name", function()
    local ok, message = pcall(tc.cuda, "\n\n__global__ void f() { nonsense; }", { name = "mine.cu" })
    assert.is_false(ok)
    assert.matches("mine.cu(3): error", message, 1, true)
    assert.matches("nonsense", message, 1, true)
  end)

  with_nvrtc("warnings are the second result", function()
    local module, log = tc.cuda("__global__ void f() { int unused; }")
    assert.truthy(module)
    assert.matches("unused", log, 1, true)
  end)

  with_nvrtc("source without a kernel is an error", function()
    assert.error_matches(function() tc.cuda("__device__ int f() { return 1; }") end, "has no kernel")
  end)

  it("refuses wrong arguments", function()
    assert.error_matches(function() tc.cuda(nil) end, "CUDA C source expected")
    assert.error_matches(function() tc.cuda("", { option = {} }) end, "did you mean 'options'")
    assert.error_matches(function() tc.cuda("", { options = "-G" }) end, "must be a list of strings")
    assert.error_matches(function() tc.cuda("", { options = { 1 } }) end, "entry 1 must be a string")
    assert.error_matches(function() tc.cuda("", { target = "hopper" }) end, "must be an architecture")
  end)
end)
