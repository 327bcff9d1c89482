-- A kernel in every mode of the emulator, and through the assembler where there is one.
local assert = require "luassert"
local kernels = require "compiler_kernels"

local M = {
  targets = { "sm_100a", "sm_90a" },
  list = { { mode = "fast" }, { mode = "check" }, { mode = "random", seed = 1 }, { mode = "random", seed = 2 } },
}

-- fn(options of kernel:emulate) for each.
function M.each(target, fn)
  for _, mode in ipairs(M.list) do
    fn({ target = target, mode = mode.mode, seed = mode.seed })
  end
end

function M.no_hazards(report)
  assert.are.equal(0, #report.hazards, report.hazards[1] and report.hazards[1].message)
end

function M.assembles(kernel, target)
  local ok, message, code = kernels.assembles(kernel, target)
  if code ~= "no-library" then assert.is_true(ok, message) end
end

-- Runs kernel(make()) on each target (of `targets`, else both) in each mode, without a hazard; check(arrays) then
-- looks at what is left of them.
function M.run(kernel, make, check, targets)
  for _, target in ipairs(targets or M.targets) do
    M.each(target, function(options)
      local arrays = { make() }
      M.no_hazards(kernel:emulate(options, table.unpack(arrays)))
      check(table.unpack(arrays))
    end)
    M.assembles(kernel, target)
  end
end

return M
