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

-- Its second half has more accumulators than 65536 / 512 registers.
local SETMAXNREG = [[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry grow(.param .u64 .ptr .global .align 4 out)
.maxntid 512, 1, 1
.minnctapersm 1
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<201>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p1, %r0, 384;
  @%p1 bra GROW;
  setmaxnreg.dec.sync.aligned.u32 24;
  ret;
GROW:
  setmaxnreg.inc.sync.aligned.u32 160;
BODY
  ret;
}
]]
local body = {}
for i = 1, 140 do body[#body + 1] = ("  ld.global.volatile.u32 %%r%d, [%%rd1+%d];"):format(i, 4 * i) end
for i = 1, 140 do body[#body + 1] = ("  st.global.volatile.u32 [%%rd1+%d], %%r%d;"):format(4 * (141 - i), i) end
SETMAXNREG = SETMAXNREG:gsub("BODY", (table.concat(body, "\n"):gsub("%%", "%%%%")))

local has_ptxas = (function()
  local home = os.getenv("TCMMA_CUDA_HOME")
  for _, folder in ipairs{ home or "/usr/local/cuda" } do
    local file = io.open(folder .. "/bin/ptxas")
    if file then file:close() return true end
  end
  return false
end)()

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

describe("assembling PTX with setmaxnreg", function()
  local with_ptxas = has_ptxas and it or pending

  with_ptxas("is done by ptxas, which honours it", function()
    local info = tc.ptx(SETMAXNREG):kernel("grow"):info()
    assert.matches("^ptxas %d+%.%d+", info.assembler)
    assert.same({}, info.warnings)
    assert.equal(0, info.spill_stores)
    local cubin, log = tc.ptx(SETMAXNREG):cubin()
    assert.equal("\127ELF", cubin:sub(1, 4))
    assert.matches("Compiling entry function 'grow' for 'sm_90a'", log)
    assert.not_matches("Compile time", log)
  end)

  with_assembler("is done by nvJitLink where there is no ptxas, which says that it has no effect", function()
    local home = process.folder()
    os.execute(("mkdir %s/lib64 && ln -s %s/libnvJitLink.so.1* %s/lib64/"):format(home, "/usr/local/cuda/lib64", home))
    local output = process.run(([[
      local tc = require "tcmma"
      local info = tc.ptx(%q):kernel("grow"):info()
      print(info.assembler, #info.warnings, info.spill_stores > 0)
      print(info.warnings[1])]]):format(SETMAXNREG), { TCMMA_CUDA_HOME = home })
    process.remove(home)
    if output:find("was not found") then return pending("nvJitLink lies elsewhere") end
    assert.matches("^nvJitLink [%d.]+\t1\ttrue\n%(C7504%) Potential Performance Loss: 'setmaxnreg' ignored", output)
  end)

  with_ptxas("each assembler's result is cached for itself", function()
    local folder = process.folder()
    local code = ([[local k = require "tcmma".ptx(%q):kernel("grow") print(k:info().assembler:match("^%%a+"))]])
      :format(SETMAXNREG)
    assert.equal("ptxas\n", process.run(code, { TCMMA_CACHE_DIR = folder }))
    assert.equal(1, #process.files(folder))
    assert.equal("ptxas\n", process.run(code, { TCMMA_CACHE_DIR = folder }))
    assert.equal(1, #process.files(folder))
    local home = process.folder()
    os.execute(("mkdir %s/bin; printf '#!/bin/sh\nexit 1\n' > %s/bin/ptxas; chmod +x %s/bin/ptxas"):format(home, home,
      home))
    os.execute(("ln -s /usr/local/cuda/lib64 %s/lib64"):format(home))
    local output = process.run(code, { TCMMA_CACHE_DIR = folder, TCMMA_CUDA_HOME = home })
    if output == "nvJitLink\n" then assert.equal(2, #process.files(folder)) end
    process.remove(home)
    process.remove(folder)
  end)

  it("other texts are left to nvJitLink", function()
    if not has_assembler then return pending("no assembler") end
    assert.matches("^nvJitLink", tc.ptx(GOOD):kernel("store"):info().assembler)
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

  with_nvrtc("says where the headers of the standard library are", function()
    for name, hinted in pairs{ ["<cstdint>"] = true, ["<stdint.h>"] = true, ["<vector>"] = true,
        ['"mine.h"'] = false } do
      local _, message = pcall(tc.cuda, "#include " .. name .. "\n__global__ void f() {}")
      assert.equal(hinted, message:find("<cuda/std/cstdint>", 1, true) ~= nil, name)
    end
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
