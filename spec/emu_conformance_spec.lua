-- The emulator decodes what the toolkit's assembler accepts for a target, and refuses what it refuses: each
-- form that the toolkit's own headers write.  Not run where the toolkit is not installed.
local tc = require "tcmma"
local forms = require "cuda_ptx_forms"

local toolkit = forms.toolkit()

-- The text of a form for the emulator: decoded, but never reached.
local function decodes(version, target, form)
  local text = forms.header(version, target) .. forms.kernel(form, "k", "ret;")
  local fine, message = pcall(function() tc.ptx(text):kernel("k"):emulate { block = { 32 } } end)
  return fine, not fine and message:match "[^\n]*"
end

describe("<cuda/ptx>", function()
  local headers = toolkit and forms.read(toolkit)
  local version = toolkit and forms.version(toolkit)

  for _, target in ipairs { "sm_90a", "sm_100a", "sm_103a" } do
    (toolkit and it or pending)(target .. ": the emulator takes what ptxas takes, no more", function()
      local refused = forms.assemble(toolkit, version, target, headers)
      local differ = {}
      for _, form in ipairs(headers) do
        local fine, message = decodes(version, target, form)
        if fine ~= not refused[form] then
          differ[#differ + 1] = form.text .. "\n    " .. (message or refused[form])
        end
      end
      assert.equal("", table.concat(differ, "\n"))
    end)
  end
end)
