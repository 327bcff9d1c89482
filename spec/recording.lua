-- Helpers of the specs about recordings.
local tc = require "tcmma"

local recording = {}

-- The message of the error that fn(...) raises, without its position.
function recording.message(fn, ...)
  local ok, message = pcall(fn, ...)
  assert(not ok, "an error was expected")
  return (tostring(message):gsub("^[^\n]-:%d+: ", "", 1))
end

-- Runs fn(k, refs...) with an open recording, which is closed afterwards; returns what fn does.
function recording.with(spec, fn)
  local opened = table.pack(tc.record(spec))
  local result = table.pack(pcall(fn, table.unpack(opened, 1, opened.n)))
  opened[1]:close()
  if not result[1] then
    error(result[2], 0)
  end
  return table.unpack(result, 2, result.n)
end

-- The lines of k:ops() below the header and the objects, without Lua lines.
function recording.ops(k)
  local lines = {}
  for line in k:ops():gmatch "[^\n]+" do
    local text = line:match "^(.-)  %-%- "
    if text or line:match "^%s*else$" then
      lines[#lines + 1] = text or line
    end
  end
  return lines
end

return recording
