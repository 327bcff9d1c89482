-- tc.async_copy_smem_to_tmem: tiles of every swizzle and width of element, and operands of an MMA.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local helper = require "helper"

local modes = { { mode = "fast" }, { mode = "check" }, { mode = "random", seed = 1 } }

local function run_in_all_modes(kernel, ...)
  for _, mode in ipairs(modes) do
    kernels.run(kernel, { target = "sm_100a", mode = mode.mode, seed = mode.seed }, ...)
  end
  local ok, message, code = kernels.assembles(kernel, "sm_100a")
  if code ~= "no-library" then assert.is_true(ok, message) end
end

local function round_trip(o)
  local n, dtype = o.n, o.dtype
  return tc.kernel{
    name = "round_trip", grid = { 1 }, grid_names = { "x" },
    args = { tc.gmem({ 128, n }, dtype), tc.gmem({ 128, n }, dtype) },
    body = function(a, out)
      local smem = tc.smem({ 2, 128, n }, dtype, { swizzle = o.swizzle })[1]
      local tmem = tc.tmem({ 128, n }, dtype, { packed = true })
      local loaded, done = tc.barrier{}, tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(a, smem, loaded)
      tc.barrier_wait(loaded)
      tc.async_copy_smem_to_tmem(smem, tmem)
      tc.commit_arrive(done)
      tc.barrier_wait(done)
      out:store(tc.async_load_tmem(tmem))
    end,
  }
end

describe("tc.async_copy_smem_to_tmem", function()
  it("spreads padded elements to a byte each, where peek finds them", function()
    for _, dtype in ipairs{ tc.e2m1, tc.e3m2 } do
      local k, x = tc.record{ args = { tc.gmem({ 128, 128 }, dtype) }, target = "sm_100a" }
      local smem = tc.smem({ 128, 128 }, dtype, { padded = dtype == tc.e2m1 or nil })
      local tmem = tc.tmem({ 128, 128 }, dtype, { padded = true })
      local loaded, done = tc.barrier{}, tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(x, smem, loaded)
      tc.barrier_wait(loaded)
      tc.async_copy_smem_to_tmem(smem, tmem)
      tc.commit_arrive(done)
      tc.barrier_wait(done)
      local source = tc.randint({ 128, 128 }, dtype, { low = -3, high = 4, seed = 1 })
      assert.is_true(tmem:peek{ quiet = true, args = { source } }:equal(source))
      k:close()
    end
  end)

  for _, case in ipairs{
    { n = 64, dtype = tc.float16 }, { n = 128, dtype = tc.float16 }, { n = 160, dtype = tc.float16, swizzle = 64 },
    { n = 16, dtype = tc.float16, swizzle = 32 }, { n = 64, dtype = tc.bfloat16, swizzle = 64 },
    { n = 32, dtype = tc.float32 }, { n = 96, dtype = tc.float32 }, { n = 8, dtype = tc.float32, swizzle = 32 },
    { n = 4, dtype = tc.float32, swizzle = "none" }, { n = 8, dtype = tc.float16, swizzle = "none" },
    { n = 64, dtype = tc.int32, swizzle = 128 }, { n = 128, dtype = tc.int8 },
  } do
    it(("copies (128, %d) of %s, swizzle %s"):format(case.n, tostring(case.dtype), tostring(case.swizzle or "chosen")),
      function()
        local a = kernels.integers({ 128, case.n }, case.dtype, 1)
        local out = tc.zeros({ 128, case.n }, case.dtype)
        run_in_all_modes(round_trip(case), a, out)
        assert.are.equal(0, (tc.max_error(out, a)))
      end)
  end

  it("is in order with the mma that reads A", function()
    local steps = 4
    local kernel = tc.kernel{
      name = "a_in_tmem", grid = { 1 }, grid_names = { "x" },
      args = { tc.gmem({ 128, 64 * steps }, tc.float16), tc.gmem({ 64 * steps, 64 }, tc.float16),
               tc.gmem({ 128, 64 }, tc.float32) },
      body = function(a, b, out)
        local a_smem, b_smem = tc.smem({ 2, 128, 64 }, tc.float16), tc.smem({ 2, 64, 64 }, tc.float16)
        local a_tmem, acc = tc.tmem({ 128, 64 }, tc.float16, { packed = true }), tc.tmem({ 128, 64 }, tc.float32)
        local loaded = tc.barrier{ num_arrivals = 2, num_barriers = 2 }
        local consumed = tc.barrier{ num_barriers = 2, orders_tensor_core = true }
        local read, done = tc.barrier{ orders_tensor_core = true }, tc.barrier{ orders_tensor_core = true }
        tc.role{ name = "load", warps = 1 }(function()
          tc.range(steps, function(k)
            local s = k % 2
            tc.when(k:ge(2), function() tc.barrier_wait(consumed[s]) end)
            tc.copy_gmem_to_smem(a:tile({ 0, k }, { 128, 64 }), a_smem[s], loaded[s])
            tc.copy_gmem_to_smem(b:tile({ k, 0 }, { 64, 64 }), b_smem[s], loaded[s])
          end)
        end)
        tc.role{ name = "mma", warps = 1 }(function()
          tc.range(steps, function(k)
            local s = k % 2
            tc.barrier_wait(loaded[s])
            tc.when(k:gt(0), function() tc.barrier_wait(read) end) -- an mma before a copy is not in order with it
            tc.async_copy_smem_to_tmem(a_smem[s], a_tmem)
            tc.mma(acc, a_tmem, b_smem[s], { barrier = consumed[s], accumulate = k:gt(0) })
            tc.commit_arrive(read)
          end)
          tc.commit_arrive(done)
        end)
        tc.role{ name = "store", warpgroups = 1 }(function()
          tc.barrier_wait(done)
          out:store(tc.async_load_tmem(acc))
        end)
      end,
    }
    local a = kernels.integers({ 128, 64 * steps }, tc.float16, 1)
    local b = kernels.integers({ 64 * steps, 64 }, tc.float16, 2)
    local out = tc.zeros({ 128, 64 }, tc.float32)
    run_in_all_modes(kernel, a, b, out)
    assert.are.equal(0, (tc.max_error(out, tc.reference.matmul(a, b))))
  end)

  local function unsafe(commit)
    return function(a)
      local smem, tmem = tc.smem({ 128, 64 }, tc.float16), tc.tmem({ 128, 64 }, tc.float16, { packed = true })
      local loaded, done = tc.barrier{}, tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(a, smem, loaded)
      tc.barrier_wait(loaded)
      tc.async_copy_smem_to_tmem(smem, tmem)
      if commit then tc.commit_arrive(done) end
      a:store(tc.async_load_tmem(tmem))
      if commit then tc.barrier_wait(done) end
    end
  end
  local options = { args = { tc.gmem({ 128, 64 }, tc.float16) } }
  it("has to be waited for before its target is read", function()
    local message = helper.message(function()
      tc.kernel{ name = "early", args = options.args, body = unsafe(true) }:ptx{ target = "sm_100a" }
    end)
    assert.matches("is read before anything has waited for the tc.async_copy_smem_to_tmem that writes it.",
      helper.first_line(message), 1, true)
    message = helper.message(function()
      tc.kernel{ name = "never", args = options.args, body = unsafe(false) }:ptx{ target = "sm_100a" }
    end)
    assert.matches("is read, but the tc.async_copy_smem_to_tmem that writes it signals no barrier.",
      helper.first_line(message), 1, true)
  end)
end)
