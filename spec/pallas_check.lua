-- How the specs of Pallas' cases run kernels, and what they compare with.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local check = {}

function check.each(list, fn)
  for _, x in ipairs(list) do fn(x) end
end

-- A kernel that runs in check mode is assembled too.
function check.run(kernel, options, ...)
  local target, mode = options.target or "sm_100a", options.mode or "fast"
  local report = kernel:emulate({ target = target, mode = mode, seed = options.seed }, ...)
  if #report.hazards > 0 then error(report.hazards[1].message, 2) end
  if mode == "check" then
    local ok, message, code = kernels.assembles(kernel, target)
    if not ok and code ~= "no-library" then error(message, 2) end
  end
  return report
end

function check.describes(o)
  local text = {}
  for key, value in pairs(o) do text[#text + 1] = key .. "=" .. tostring(value) end
  return table.concat(text, " ")
end

function check.close(out, expected, atol, rtol, o)
  if not tc.allclose(out, expected, { atol = atol, rtol = rtol }) then
    error(("%s: off by %g"):format(check.describes(o), (tc.max_error(out, expected))))
  end
end

-- Numbers that the type holds exactly, and that need a sign where it has one.
function check.exact(shape, dtype, seed)
  if dtype == tc.u8 then return tc.randint(shape, dtype, { low = 0, high = 256, seed = seed }) end
  return tc.randint(shape, dtype, { low = -3, high = 4, seed = seed })
end

-- What comes out of `kernel` is `expected`; o: mode, and what the message names.
function check.copies(kernel, source, expected, o)
  local out = tc.zeros(expected.shape, expected.dtype)
  check.run(kernel, o, source, out)
  if not out:equal(expected) then error(check.describes(o) .. ": differs") end
end

return check
