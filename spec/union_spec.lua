-- tc.union: allocations that share storage, used one after the other; and what the emulator says where they overlap
-- in time.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"


local function in_all_modes(kernel, targets, check, make) modes.run(kernel, make, check, targets) end

local both = { "sm_100a", "sm_90a" }

local function hazard(kernel, ...)
  local report = kernel:emulate({ target = "sm_100a", mode = "check" }, ...)
  assert.is_true(#report.hazards > 0, "no hazard")
  return report.hazards[1]
end

-- A product whose epilogue uses the memory of its operands.  spoil: the epilogue does not wait for the MMAs.
local function smem(spoil)
  return tc.kernel{
    name = "operands", args = { tc.gmem({ 128, 128 }, tc.bfloat16), tc.gmem({ 128, 64 }, tc.bfloat16),
      tc.gmem({ 128, 64 }, tc.float32) },
    body = function(a, b, out)
      local x, y = tc.smem({ 128, 128 }, tc.bfloat16), tc.smem({ 128, 64 }, tc.bfloat16)
      local z = tc.smem({ 128, 64 }, tc.float32, { name = "result" })
      tc.union({ x, y }, z)
      local acc = tc.tmem({ 128, 64 }, tc.float32)
      local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(a, x, loaded)
      tc.copy_gmem_to_smem(b, y, loaded)
      tc.barrier_wait(loaded)
      tc.mma(acc, x, y, { barrier = done, accumulate = false })
      if spoil then z:store(tc.full({ 128, 64 }, 1, tc.float32)) end
      tc.barrier_wait(done)
      z:store(tc.async_load_tmem(acc))
      tc.commit_smem()
      tc.copy_smem_to_gmem(z, out)
      tc.wait_smem_to_gmem(0)
    end,
  }
end

-- S = Q K^T in float32, P = relu(S) in bfloat16 in the same columns, out = P V.
-- spoil "early": P is stored before S is loaded whole; "behind": the MMA does not wait for the stores.
local function tmem(spoil)
  return tc.kernel{
    name = "scores", args = { tc.gmem({ 128, 64 }, tc.bfloat16), tc.gmem({ 64, 64 }, tc.bfloat16),
      tc.gmem({ 64, 64 }, tc.bfloat16), tc.gmem({ 128, 64 }, tc.float32) },
    body = function(q, k, v, out)
      local x, y, w = tc.smem({ 128, 64 }, tc.bfloat16), tc.smem({ 64, 64 }, tc.bfloat16), tc.smem({ 64, 64 },
        tc.bfloat16)
      local s = tc.tmem({ 128, 64 }, tc.float32, { name = "scores" })
      local p = tc.tmem({ 128, 64 }, tc.bfloat16, { packed = true, name = "weights" })
      local acc = tc.tmem({ 128, 64 }, tc.float32)
      tc.union(s, p)
      local loaded = tc.barrier{ num_arrivals = 3 }
      local scored, done = tc.barrier{ orders_tensor_core = true }, tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(q, x, loaded)
      tc.copy_gmem_to_smem(k, y, loaded)
      tc.copy_gmem_to_smem(v, w, loaded)
      tc.barrier_wait(loaded)
      tc.mma(s, x, y, { barrier = scored, accumulate = false })
      if spoil ~= "early" then tc.barrier_wait(scored) end
      local weights = spoil == "early" and tc.full({ 128, 64 }, 1, tc.bfloat16)
        or tc.max(tc.async_load_tmem(s), 0):astype(tc.bfloat16)
      tc.async_store_tmem(p, weights)
      if spoil ~= "behind" then tc.commit_tmem() end
      tc.mma(acc, p, w, { barrier = done, accumulate = false })
      tc.barrier_wait(done)
      if spoil == "early" then tc.barrier_wait(scored) end
      out:store(tc.async_load_tmem(acc))
    end,
  }
end

local function matrix(rows, columns, seed) return kernels.integers({ rows, columns }, tc.bfloat16, seed) end

describe("a union in shared memory", function()
  it("takes turns: operands, then the result", function()
    local a, b = matrix(128, 128, 1), matrix(128, 64, 2)
    local expected = tc.reference.matmul(a, b)
    in_all_modes(smem(), both, function(_, _, out) assert.are.equal(0, (tc.max_error(out, expected))) end,
      function() return a, b, tc.zeros({ 128, 64 }, tc.float32) end)
  end)

  it("needs the room of its largest member alone", function()
    local info = smem():info{ target = "sm_100a" }
    assert.is_true(info.smem >= 49152 and info.smem < 49152 + 1024)
  end)

  it("shows a member that is written while an MMA reads the other", function()
    local first = hazard(smem(true), matrix(128, 128, 1), matrix(128, 64, 2), tc.zeros({ 128, 64 }, tc.float32))
    assert.are.equal("mma-not-awaited", first.rule)
    assert.is_truthy(first.message:find("result", 1, true), first.message)
  end)
end)

describe("a union in tensor memory", function()
  it("holds an accumulator, then an operand", function()
    local q, k, v = matrix(128, 64, 3), matrix(64, 64, 4), matrix(64, 64, 5)
    local s, weight = tc.reference.matmul(q, k):totable(), v:totable()
    local expected = {}
    for i = 1, 128 do
      expected[i] = {}
      for j = 1, 64 do
        local sum = 0
        for n = 1, 64 do sum = sum + math.max(s[i][n], 0) * weight[n][j] end
        expected[i][j] = sum
      end
    end
    in_all_modes(tmem(), both, function(_, _, _, out) assert.are.same(expected, out:totable()) end,
      function() return q, k, v, tc.zeros({ 128, 64 }, tc.float32) end)
  end)

  it("needs the columns of its largest member alone", function()
    assert.are.equal(128, tmem():info{ target = "sm_100a" }.tmem_columns)
  end)

  -- One product whose A, by the slot of the accumulator, lies in columns that it writes or not.
  local function over(index)
    return tc.kernel{
      name = "over", args = { tc.gmem({ 128, 64 }, tc.bfloat16), tc.gmem({ 64, 64 }, tc.bfloat16),
        tc.gmem({ 128, 64 }, tc.float32) },
      body = function(a, b, out)
        local b_smem = tc.smem({ 64, 64 }, tc.bfloat16)
        local acc = tc.tmem({ 2, 128, 64 }, tc.float32)
        local p = tc.tmem({ 128, 64 }, tc.bfloat16, { packed = true })
        tc.union(acc, p)
        local loaded, done = tc.barrier{}, tc.barrier{ orders_tensor_core = true }
        tc.copy_gmem_to_smem(b, b_smem, loaded)
        tc.barrier_wait(loaded)
        tc.async_store_tmem(p, a:load())
        tc.commit_tmem()
        local slot = acc[index()]
        tc.mma(slot, p, b_smem, { barrier = done, accumulate = false })
        tc.barrier_wait(done)
        out:store(tc.async_load_tmem(slot))
      end,
    }
  end

  it("refuses an accumulator over an operand of the same MMA", function()
    local ok, message = pcall(over, function() return 0 end)
    assert.is_false(ok)
    assert.is_truthy(message:find("tc.mma writes acc over a, which it reads: they share columns of tensor memory.", 1,
      true), message)
    local a, b = matrix(128, 64, 3), matrix(64, 64, 4)
    local expected = tc.reference.matmul(a, b)
    in_all_modes(over(function() return 1 end), both,
      function(_, _, out) assert.are.equal(0, (tc.max_error(out, expected))) end,
      function() return a, b, tc.zeros({ 128, 64 }, tc.float32) end)
  end)

  it("shows it where the slot is known only when the kernel runs", function()
    local kernel = over(function() return tc.axis_index(0) end)
    local report = kernel:emulate({ target = "sm_100a", mode = "check" }, matrix(128, 64, 3), matrix(64, 64, 4),
      tc.zeros({ 128, 64 }, tc.float32))
    local found
    for _, h in ipairs(report.hazards) do found = found or h.rule == "mma-overlap" end
    assert.is_true(found)
  end)

  for spoil, expected in pairs{ early = "tmem-race", behind = "tcgen05-st-not-awaited" } do
    it("shows members that overlap in time: " .. spoil, function()
      local first = hazard(tmem(spoil), matrix(128, 64, 3), matrix(64, 64, 4), matrix(64, 64, 5),
        tc.zeros({ 128, 64 }, tc.float32))
      assert.are.equal(expected, first.rule)
    end)
  end
end)
