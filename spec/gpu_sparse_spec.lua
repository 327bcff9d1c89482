-- Sparse MMAs on a Hopper GPU: `make check-gpu`.  The results are known without it.
local tc = require "tcmma"

package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local sparse = require "sparse_kernels"

local gpu = tc.device(os.getenv("TCMMA_DEVICE") or "cuda:0")
local on_gpu = gpu and it or pending

local function check(o)
  local kernel, operands = sparse.kernel(o), sparse.operands(o)
  local arguments = {}
  for i, array in ipairs(operands) do arguments[i] = array:to(gpu) end
  local out = tc.zeros(operands.expected.shape, operands.d, { device = gpu })
  arguments[#arguments + 1] = out
  for _ = 1, 20 do kernel(table.unpack(arguments)) end
  assert.are.same(operands.expected:totable(), out:totable())
end

describe("sparse MMAs on a GPU #gpu", function()
  for _, dtype in ipairs { "f16", "bf16", "e4m3", "e5m2", "f32", "i8", "u8" } do
    on_gpu("multiply " .. dtype, function()
      check { a = dtype, n = 64, k = 256 }
      check { a = dtype, n = 128, k = 1024, tile = dtype == "f32" and 128 or 256 }
      if dtype ~= "f32" then check { a = dtype, n = 64, k = 256, a_tmem = true } end
    end)
  end
  on_gpu("mix types, and orders of storage", function()
    check { a = "e4m3", b = "e5m2", n = 48, k = 256 }
    check { a = "u8", b = "i8", n = 64, k = 256 }
    check { a = "f16", d = "f16", n = 128, k = 256, a_columns = true, b_rows = true }
    check { a = "bf16", n = 256, k = 512, tile = 128, a_swizzle = 64, twice = true }
  end)
end)
