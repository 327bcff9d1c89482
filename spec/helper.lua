-- Shared by the specs of messages: a call that is refused, and what must not change by it.
local busted = require "busted"
local assert = require "luassert"
local tc = require "tcmma"

local M = {}

-- A recording with the options of tc.record; fn gets it and a ref per argument.
function M.recording(options, fn)
   local results = table.pack(tc.record(options or {}))
   local k = results[1]
   local ok, message = xpcall(fn, debug.traceback, k, table.unpack(results, 2, results.n))
   k:close()
   if not ok then error(message, 0) end
end

-- First line of a message without "file:line: ", which has to point into a spec.
function M.first_line(message)
   local line = tostring(message):match "^[^\n]*"
   local place, text = line:match "^(%S*_spec%.lua:%d+): (.*)$"
   assert(place, "the message does not point into the spec: " .. tostring(message))
   return text
end

-- The message with which fn(...) is refused.
function M.message(fn, ...)
   local ok, message = pcall(fn, ...)
   assert(not ok, "the call was not refused")
   return message
end

-- it(title): bad() is refused with exactly this first line and leaves the recording as it was;
-- good(), its legal neighbour, is not.  setup(refs of the arguments) returns bad and good.
function M.refuses(title, expected, setup, options)
   busted.it(title, function()
      M.recording(options, function(k, ...)
         local bad, good = setup(...)
         local before = k:ops()
         assert.equal(expected, M.first_line(M.message(bad)))
         assert.equal(before, k:ops())
         if good then
            good()
         end
      end)
   end)
end

-- it(title): building the kernel is refused with this first line, which points at `line_of`.
function M.build_refuses(title, expected, options, body)
   busted.it(title, function()
      local spec = { name = "kernel", target = "sm_100a", body = body }
      for key, value in pairs(options or {}) do spec[key] = value end
      local message = M.message(function() tc.kernel(spec):ptx() end)
      assert.equal(expected, M.first_line(message))
   end)
end

function M.builds(title, options, body)
   busted.it(title, function()
      local spec = { name = "kernel", target = "sm_100a", body = body }
      for key, value in pairs(options or {}) do spec[key] = value end
      assert.is_string(tc.kernel(spec):ptx())
   end)
end

return M
