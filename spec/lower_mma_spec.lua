-- Every dense kind::f16 shape, swizzle and storage order: assembled, and run on the emulator
-- against the product in double precision.  Operands are small integers, so results are exact.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local no_assembler

local function check(o)
  local kernel = kernels.tile(o)
  local a = kernels.integers(o.a_transposed and { o.k, o.m } or { o.m, o.k }, o.dtype or tc.float16, 1)
  local b = kernels.integers(o.b_transposed and { o.n, o.k } or { o.k, o.n }, o.dtype or tc.float16, 2)
  local out = tc.zeros({ o.m, o.n }, o.acc or tc.float32)
  local fine, message = kernels.assembles(kernel)
  if fine == nil then no_assembler = message end
  kernels.run(kernel, { target = "sm_100a" }, a, b, out)
  local expected = tc.reference.matmul(a, b, { transpose_a = o.a_transposed, transpose_b = o.b_transposed })
  local text = {}
  for key, value in pairs(o) do text[#text + 1] = key .. "=" .. tostring(value) end
  assert.are.equal(0, (tc.max_error(out, expected)), table.concat(text, " "))
end

describe("tcgen05.mma of kind::f16", function()
  for _, swizzle in ipairs{ 32, 64, 128 } do
    for _, a_transposed in ipairs{ false, true } do
      for _, b_transposed in ipairs{ false, true } do
        it(("swizzle %d, a stored %s, b stored %s"):format(swizzle, a_transposed and "(K, M)" or "(M, K)",
          b_transposed and "(N, K)" or "(K, N)"), function()
          for _, m in ipairs{ 64, 128 } do
            for _, dtype in ipairs{ tc.float16, tc.bfloat16 } do
              check{ m = m, n = 128, k = 128, dtype = dtype, swizzle = swizzle, a_transposed = a_transposed,
                     b_transposed = b_transposed }
            end
          end
        end)
      end
    end
  end

  for _, m in ipairs{ 64, 128 } do
    it(("every N with M = %d"):format(m), function()
      for n = m == 64 and 32 or 16, 256, 16 do
        check{ m = m, n = n, k = 32, swizzle = 32, b_transposed = true }
      end
    end)
  end

  it("accumulates in f16", function()
    for _, m in ipairs{ 64, 128 } do
      check{ m = m, n = 128, k = 64, acc = tc.float16 }
    end
  end)

  it("takes A from tensor memory", function()
    for _, dtype in ipairs{ tc.float16, tc.bfloat16 } do
      check{ m = 128, n = 64, k = 64, dtype = dtype, a_tmem = true }
    end
  end)

  it("counts the bytes of the operands that it reads", function()
    local m, n = 128, 64
    local function read(target, k, a_tmem)
      local report = kernels.run(kernels.tile { m = m, n = n, k = k, a_tmem = a_tmem }, { target = target },
        tc.zeros({ m, k }, tc.f16), tc.zeros({ k, n }, tc.f16), tc.zeros({ m, n }, tc.f32))
      return report.counters
    end
    -- What 64 further columns of A, and rows of B, add.
    local function more(counter, target, a_tmem)
      return read(target, 128, a_tmem)[counter] - read(target, 64, a_tmem)[counter]
    end
    assert.equal(2 * 64 * (m + n), more("shared_read", "sm_100a"))
    assert.equal(0, more("tmem_read", "sm_100a"))
    -- A wgmma has 64 rows: B is read for each half of D.
    assert.equal(2 * 64 * (m + 2 * n), more("shared_read", "sm_90a"))
    -- Threads load A from shared memory, the MMA from tensor memory.
    assert.equal(2 * 64 * (m + n), more("shared_read", "sm_100a", true))
    assert.equal(2 * 64 * m, more("tmem_read", "sm_100a", true))
  end)

  it("was assembled", function()
    if no_assembler then return pending(no_assembler) end
  end)
end)
