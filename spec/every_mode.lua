-- A kernel on all targets and in all modes of the emulator, or, once `gpu` is set, on that.
local assert = require "luassert"
local kernels = require "compiler_kernels"

local M = { modes = { "fast", "check", "random" } }

-- Assembles and runs it; new(): its arrays, verify(arrays): what must hold behind.  lint: what may be reported.
function M.runs(kernel, targets, new, verify, lint)
  for _, target in ipairs(targets) do
    if M.gpu and M.gpu.target == target then
      local arrays = table.pack(new())
      kernel(table.unpack(arrays, 1, arrays.n))
      verify(table.unpack(arrays, 1, arrays.n))
    end
    for _, mode in ipairs(M.gpu and {} or M.modes) do
      local arrays = table.pack(new())
      local report = kernel:emulate({ target = target, mode = mode, seed = 5 }, table.unpack(arrays, 1, arrays.n))
      for _, hazard in ipairs(report.hazards) do assert.are.equal(lint, hazard.rule, hazard.message) end
      verify(table.unpack(arrays, 1, arrays.n))
    end
    if not M.gpu then
      local fine, message, code = kernels.assembles(kernel, target)
      assert.is_true(fine or code == "no-library", message)
    end
  end
end

return M
