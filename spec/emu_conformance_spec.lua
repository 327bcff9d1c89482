-- The emulator decodes what the toolkit's assembler accepts for a target, and refuses what it refuses: each form that
-- the toolkit's own headers write, and those of the ISA that they lack.  Not run where the toolkit is not installed.
local tc = require "tcmma"
local cuda = require "cuda_ptx_forms"
local isa = require "ptx_forms"

local toolkit = cuda.toolkit()
local run = toolkit and it or pending

-- The text of a form for the emulator: decoded, but never reached.
local function decodes(version, target, form)
  local text = cuda.header(version, target) .. cuda.kernel(form, "k", "ret;")
  local fine, message = pcall(function() tc.ptx(text):kernel("k"):emulate { block = { 32 } } end)
  return fine, not fine and message:match "[^\n]*"
end

-- Where the two differ, less what `known` explains.
local function differences(target, forms, known)
  local version = cuda.version(toolkit)
  local refused = cuda.assemble(toolkit, version, target, forms)
  local differ = {}
  for _, form in ipairs(forms) do
    local fine, message = decodes(version, target, form)
    local explained = false
    for _, pattern in ipairs(known or {}) do explained = explained or form.text:match(pattern) ~= nil end
    if fine ~= not refused[form] and not explained then
      differ[#differ + 1] = form.text .. "\n    " .. (message or refused[form])
    end
  end
  return table.concat(differ, "\n")
end

-- What the assembler takes and the emulator refuses by name, since the ISA gives it no meaning here.
local known = {
  "kind::i8.*, %d+;$",       -- an exponent for D, of integers
  "^mma%.sp.*m16n8k32%.row%.col%.f32%.f16%.f16%.f32.*, [23];$", -- a selector that all other types refuse
}

describe("<cuda/ptx>", function()
  local headers = toolkit and cuda.read(toolkit)
  for _, target in ipairs { "sm_90a", "sm_100a", "sm_103a" } do
    run(target .. ": the emulator takes what ptxas takes, no more", function()
      assert.equal("", differences(target, headers))
    end)
  end
end)

describe("the PTX ISA #slow", function()
  for _, target in ipairs { "sm_90a", "sm_100a", "sm_103a" } do
    run(target .. ": the emulator takes what ptxas takes, no more", function()
      assert.equal("", differences(target, isa.all(), known))
    end)
  end
end)
