-- Kernels of the specs of verify: tiles of an array are copied, by one CTA or by a pair.
local busted = require "busted"
local assert = require "luassert"
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"

local M = { TILES = 8, ROWS = 32, COLUMNS = 64, pair = { cluster = { 2 }, cluster_names = { "c" } },
   multicast = { collective_axes = "c" } }
local TILES, ROWS, COLUMNS = M.TILES, M.ROWS, M.COLUMNS

function M.with(options, more)
   local all = {}
   for key, value in pairs(options) do all[key] = value end
   for key, value in pairs(more) do all[key] = value end
   return all
end

-- body(x, y, flags): copies the tiles x to y, both (8 * 32, 64); flags: { 8, 1, 0, 2, 0 }, of i32.
function M.copies(title, options, body)
   busted.it(title, function()
      local kernel = tc.kernel(M.with({
         name = "copies",
         args = { tc.gmem({ TILES * ROWS, COLUMNS }, "f16"), tc.gmem({ TILES * ROWS, COLUMNS }, "f16"),
            tc.gmem({ 5 }, "i32") },
         body = body,
      }, options))
      local x = kernels.integers({ TILES * ROWS, COLUMNS }, tc.f16, 3)
      modes.run(kernel, function()
         return x, tc.zeros(x.shape, "f16"), tc.from_table({ 8, 1, 0, 2, 0 }, "i32")
      end, function(_, y) assert.is_true(y:equal(x)) end, options.targets)
   end)
end

function M.tile(ref, k) return ref:tile({ k, 0 }, { ROWS, COLUMNS }) end

-- The tile k of a slot to y, by one CTA of the pair, and behind that `release`.
function M.store(y, slot, k, c)
   tc.when(c:eq(k % 2), function()
      tc.copy_smem_to_gmem(slot, M.tile(y, k))
      tc.wait_smem_to_gmem(0)
   end)
end

function M.roles()
   return tc.role { name = "load", warps = 1 }, tc.role { name = "use", warps = 1 }
end

return M
