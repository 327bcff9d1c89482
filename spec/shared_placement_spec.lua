-- Where an extern shared array begins: behind the static ones, at a multiple of its alignment and of 16, as the
-- ISA has it and ptxas does. nvJitLink keeps to 16 alone, so that such a text is not given to it.
local tc = require "tcmma"
local process = require "process"

-- Bytes and alignment of the static array, alignment of the extern one; the offset measured on an H200, of code
-- that the driver (13.0) and ptxas assembled.
local measured = {
  { 0, 4, 16, 0 }, { 0, 4, 1024, 0 }, { 4, 4, 4, 16 }, { 4, 4, 16, 16 }, { 20, 4, 4, 32 }, { 20, 4, 8, 32 },
  { 20, 4, 16, 32 }, { 20, 4, 128, 128 }, { 20, 4, 1024, 1024 }, { 1000, 8, 16, 1008 }, { 1000, 8, 1024, 1024 },
  { 1024, 16, 1024, 1024 }, { 1028, 4, 1024, 2048 }, { 5000, 4, 128, 5120 }, { 100, 128, 4, 112 },
  { 100, 1024, 4, 112 }, { 20, 1, 2, 32 }, { 21, 1, 1, 32 }, { 23, 1, 4, 32 },
}

local function text(bytes, fixed_alignment, alignment)
  local fixed = bytes > 0
  return ([[
.version 8.0
.target sm_90a
.address_size 64
%s
.extern .shared .align %d .b8 tail[];
.visible .entry k(.param .u64 .ptr .global .align 4 p) {
  .reg .b64 %%rd<1>; .reg .b32 %%r<2>;
  ld.param.u64 %%rd0, [p];
  mov.u32 %%r0, tail;
  st.global.u32 [%%rd0], %%r0;
  %s
  ret;
}]]):format(fixed and (".shared .align %d .b8 fixed[%d];"):format(fixed_alignment, bytes) or "", alignment,
    fixed and "mov.u32 %r1, fixed; st.shared.u8 [%r1], %r0;" or "")
end

local function check(device)
  for _, row in ipairs(measured) do
    local out = tc.zeros({ 1 }, "u32", { device = device })
    tc.ptx(text(row[1], row[2], row[3])):kernel("k"):launch { block = { 1 }, smem = 64, args = { out } }
    assert.equal(1024 + row[4], out:get(0), ("%d bytes, extern aligned to %d"):format(row[1], row[3]))
  end
end

describe("an extern shared array", function()
  it("begins where the ISA says, on the emulator", function() check "emulator:sm_90a" end)

  local on_gpu = tc.device "cuda:0" and it or pending
  on_gpu("begins there on a GPU too #gpu", function() check "cuda:0" end)

  it("is assembled by ptxas where its alignment matters, or not at all", function()
    local versions = tc.versions()
    for _, case in ipairs { { text(20, 4, 1024), true }, { text(20, 4, 16), false }, { text(0, 4, 1024), false } } do
      local info, why, code = tc.ptx(case[1]):kernel("k"):info()
      if case[2] and info then
        assert.matches("^ptxas ", info.assembler)
      elseif case[2] then
        assert.equal("no-assembler", code)
      elseif versions.nvjitlink then
        assert(info, why)
        assert.matches("^nvJitLink ", info.assembler)
      end
    end
  end)

  it("says what is missing where there is no ptxas", function()
    if not tc.versions().nvjitlink then return pending "no assembler" end
    local home = process.folder()
    os.execute(("ln -s /usr/local/cuda/lib64 %s/lib64; mkdir %s/bin"):format(home, home))
    os.execute(("printf '#!/bin/sh\nexit 1\n' > %s/bin/ptxas; chmod +x %s/bin/ptxas"):format(home, home))
    local output = process.run(("print(require('tcmma').ptx(%q):cubin())"):format(text(20, 4, 1024)),
      { TCMMA_CUDA_HOME = home })
    process.remove(home)
    assert.matches("^nil\tthis text has static shared memory, and an extern shared array aligned to 1024 behind it",
      output)
    assert.matches("\tno%-assembler\n$", output)
  end)
end)
