-- Pairs of CTAs (cta_group::2): results against the product in double precision in the emulator's
-- three modes, without a hazard; every kernel is assembled for both Blackwell targets.  Operands are
-- small integers, so results are exact.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"
local collective = require "collective_kernels"

local no_assembler

local function assembled(kernel)
  for _, target in ipairs{ "sm_100a", "sm_103a" } do
    local fine, message, code = kernels.assembles(kernel, target)
    if code == "no-library" then no_assembler = message else assert.is_true(fine, message) end
  end
end

-- Runs in every mode; `expected` has what is written to `out`.
local function right(kernel, out, expected, ...)
  for _, mode in ipairs(modes.list) do
    for _, target in ipairs(mode.mode == "check" and { "sm_100a", "sm_103a" } or { "sm_100a" }) do
      out:copy_from(tc.zeros(out.shape, out.dtype))
      local arguments = table.pack(...)
      arguments[arguments.n + 1] = out
      local report = kernel:emulate({ target = target, mode = mode.mode, seed = mode.seed },
        table.unpack(arguments, 1, arguments.n + 1))
      assert.are.same({}, report.hazards)
      assert.are.equal(0, (tc.max_error(out, expected)), mode.mode)
    end
  end
  assembled(kernel)
end

local function matmul(o)
  local TM, TN, TK, steps = o.rows or 128, o.n or 256, o.tk or 64, o.steps or 3
  local M, N, K = 2 * TM * (o.down or 1), TN * (o.across or 1), TK * steps
  local a = kernels.integers(o.a_transposed and { K, M } or { M, K }, o.dtype or tc.float16, 1)
  local b = kernels.integers(o.b_transposed and { N, K } or { K, N }, o.dtype or tc.float16, 2)
  local expected = tc.reference.matmul(a, b, { transpose_a = o.a_transposed, transpose_b = o.b_transposed })
  right(collective.matmul(o), tc.zeros({ M, N }, o.acc or tc.float32), expected, a, b)
end

describe("A matmul of two CTAs", function()
  for _, rows in ipairs{ 64, 128 } do
    for _, n in ipairs{ 32, 96, 128, 160, 256 } do
      it(("M = %d, N = %d"):format(2 * rows, n), function() matmul{ rows = rows, n = n, dtype = tc.bfloat16 } end)
    end
    for _, swizzle in ipairs{ 32, 64, 128 } do
      it(("M = %d, swizzle %d, every order of storage"):format(2 * rows, swizzle), function()
        for _, a_transposed in ipairs{ false, true } do
          for _, b_transposed in ipairs{ false, true } do
            matmul{ rows = rows, n = 128, steps = 2, swizzle = swizzle, a_transposed = a_transposed,
                    b_transposed = b_transposed }
          end
        end
      end)
    end
    it(("M = %d accumulates in f16"):format(2 * rows), function() matmul{ rows = rows, n = 64, acc = tc.float16 } end)
    it(("M = %d, roles of several warps, more tiles than one"):format(2 * rows), function()
      matmul{ rows = rows, n = 64, load_warps = 2, mma_warps = 4, warpgroups = 2, down = 2, across = 2, steps = 4 }
    end)
    it(("M = %d with a barrier of each CTA"):format(2 * rows), function()
      matmul{ rows = rows, n = 64, copies = "own", steps = 5 }
    end)
  end

  for _, case in ipairs{ { m = 512, cols = 512, k = 192, clusters = 1 },
                         { m = 520, cols = 392, k = 136, clusters = 2, n = 128 },
                         { m = 384, cols = 256, k = 128, clusters = 1, rows = 64, n = 128, tracked = true },
                         { m = 512, cols = 256, k = 128, clusters = 1, n = 64, tracked = true, stages = 4 },
                         { m = 768, cols = 256, k = 128, n = 128, dynamic = true },
                         { m = 512, cols = 96, k = 64, rows = 64, n = 32, dynamic = true, tracked = true } } do
    it(("walks over the tiles of %d x %d x %d%s, accumulators take turns"):format(case.m, case.cols, case.k,
      case.dynamic and ", some of them taken over" or ""), function()
      local a = kernels.integers({ case.m, case.k }, tc.bfloat16, 1)
      local b = kernels.integers({ case.k, case.cols }, tc.bfloat16, 2)
      right(collective.persistent(case), tc.zeros({ case.m, case.cols }, tc.float32), tc.reference.matmul(a, b), a, b)
    end)
  end

  for _, threads in ipairs{ false, true } do
    for _, case in ipairs{ { 128, 64 }, { 128, 256 }, { 64, 64 }, { 64, 256 } } do
      local rows, n = table.unpack(case)
      it(("takes A from tensor memory, written by %s, M = %d, N = %d"):format(threads and "threads" or "copies",
        2 * rows, n), function()
        local a, b = kernels.integers({ 2 * rows, 64 }, tc.float16, 1), kernels.integers({ 64, n }, tc.float16, 2)
        local kernel = collective.a_in_tmem{ rows = rows, n = n, threads = threads, tracked = n == 64 }
        right(kernel, tc.zeros({ 2 * rows, n }, tc.float32), tc.reference.matmul(a, b), a, b)
      end)
    end
  end
end)

describe("Threads that write 64 rows of A into tensor memory for a pair", function()
  for _, case in ipairs{ { dtype = tc.float16, warpgroups = 2 }, { dtype = tc.bfloat16, warpgroups = 3, twice = true },
                         { dtype = tc.float32, k = 32 }, { dtype = tc.float8_e4m3fn, k = 128, warpgroups = 2 },
                         { dtype = tc.float16, k = 192, twice = true, parts = 3 } } do
    it(("%s, %d warpgroups"):format(case.dtype, case.warpgroups or 1), function()
      case.rows, case.n, case.k, case.threads, case.b_transposed = 64, 128, case.k or 64, true, true
      local a = kernels.integers({ 128, case.k }, case.dtype, 1)
      local b = kernels.integers({ 128, case.k }, case.dtype, 2)
      local rows = tc.reference.matmul(a, b, { transpose_b = true }):totable()
      for _, row in ipairs(rows) do for j, x in ipairs(row) do row[j] = case.twice and 2 * x or x end end
      local expected = tc.from_table(rows, tc.float64)
      right(collective.a_in_tmem(case), tc.zeros({ 128, 128 }, tc.float32), expected, a, b)
    end)
  end
end)

describe("Copies that the leader tracks", function()
  for _, case in ipairs{ { shape = { 64, 64 }, dtype = tc.float16, axis = 0 },
                         { shape = { 64, 64 }, dtype = tc.float16, axis = 1 },
                         { shape = { 64, 64 }, dtype = tc.float16 },
                         { shape = { 32, 32 }, dtype = tc.float32, swizzle = "none" },
                         { shape = { 8, 128 }, dtype = tc.float16, stages = 3 } } do
    it(("(%d, %d) of %s, %s"):format(case.shape[1], case.shape[2], tostring(case.dtype),
      case.axis and "partitioned along " .. case.axis or "replicated"), function()
        local steps, R, C = 4, case.shape[1], case.shape[2]
        local a = kernels.integers({ steps * R * (case.axis == 0 and 2 or 1), C * (case.axis == 1 and 2 or 1) },
          case.dtype, 3)
        local rows, expected = a:totable(), { {}, {} }
        for cta = 0, 1 do
          for i = 0, steps * R - 1 do
            local from = case.axis == 0 and i // R * 2 * R + cta * R + i % R or i
            local first = case.axis == 1 and cta * C or 0
            expected[cta + 1][i + 1] = table.move(rows[from + 1], first + 1, first + C, 1, {})
          end
        end
        right(collective.tracked(case), tc.zeros({ 2, steps * R, C }, case.dtype),
          tc.from_table(expected, case.dtype), a)
      end)
  end
end)

describe("Collective tensor memory", function()
  for _, rows in ipairs{ 64, 128 } do
    it(("of %d rows keeps what registers store"):format(rows), function()
      for _, kind in ipairs{ { tc.float32 }, { tc.float16, false }, { tc.float16, true }, { tc.float8_e5m2, true },
                             { tc.float4_e2m1fn, true }, { tc.int4, true } } do
        -- three warpgroups cannot divide 32 columns: each holds them all, one stores
        for _, case in ipairs{ { 32, 1 }, { 32, 3 }, { 96, 3 }, { 160, 2 } } do
          -- a slot begins at a multiple of 8 columns of 32 bits
          local columns = kind[1].bits == 4 and 2 * case[1] or case[1]
          local a = kernels.integers({ 2 * rows, columns }, kind[1], 1)
          right(collective.round_trip{ rows = rows, columns = columns, dtype = kind[1], packed = kind[2],
            warpgroups = case[2] }, tc.zeros(a.shape, kind[1]), a, a)
        end
      end
    end)
  end
end)

describe("A cluster barrier that the leader tracks", function()
  for _, case in ipairs{ { cluster = { 1, 2 }, axis = "x" }, { cluster = { 3, 2 }, axis = "y" },
                         { cluster = { 2, 3 }, axis = "x" }, { cluster = { 4, 1 }, axis = "y" } } do
    it(("tells the first of the CTAs along %s of %d x %d"):format(case.axis, case.cluster[1], case.cluster[2]),
      function()
      local kernel = collective.sum(case)
      local rows, columns = case.cluster[1], case.cluster[2]
      local parts = kernels.integers({ rows, columns, 64, 32 }, tc.float32, 5)
      local all, expected = parts:totable(), {}
      for i = 1, case.axis == "y" and columns or rows do
        expected[i] = {}
        for r = 1, 64 do
          expected[i][r] = {}
          for c = 1, 32 do
            local sum = 0
            for j = 1, case.axis == "y" and rows or columns do
              sum = sum + (case.axis == "y" and all[j][i] or all[i][j])[r][c]
            end
            expected[i][r][c] = sum
          end
        end
      end
      for _, target in ipairs{ "sm_90a", "sm_100a" } do
        for _, mode in ipairs(modes.list) do
          local out = tc.zeros({ #expected, 64, 32 }, tc.float32)
          local report = kernel:emulate({ target = target, mode = mode.mode, seed = mode.seed }, parts, out)
          assert.are.same({}, report.hazards)
          assert.are.same(expected, out:totable())
        end
        local fine, message, code = kernels.assembles(kernel, target)
        if code ~= "no-library" then assert.is_true(fine, message) end
      end
    end)
  end
end)

-- docs/isa.md 1, 2.4, 5.5, 5.7, 8.3: worked by hand.
describe("The code of two CTAs", function()
  local function has(text, ...)
    for _, words in ipairs{ ... } do assert(text:find(words, 1, true), words .. " is missing") end
  end
  local function count(text, words)
    local n, at = 0, 1
    while true do
      at = text:find(words, at, true)
      if not at then return n end
      n, at = n + 1, at + #words
    end
  end

  it("has one cta_group, and what goes to the leader is loaded and counted by both", function()
    local text = collective.matmul{ dtype = tc.bfloat16, b_transposed = true, stages = 3 }:ptx{ target = "sm_100a" }
    assert.are.equal(0, count(text, "cta_group::1"))
    -- D f32, A and B bf16, N / 8 = 32, M / 16 = 16; four steps of 16 along K
    assert.are.equal(4, count(text, "tcgen05.mma.cta_group::2.kind::f16"))
    assert.are.equal(4, count(text, "0x10400490"))
    -- 128 x 64 and 128 x 64 elements of each CTA
    has(text, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r", ", 32768;", "mapa.shared::cluster.u32")
    assert.are.equal(2, count(text, "complete_tx::bytes.cta_group::2"))
    -- both CTAs of ranks 0 and 1
    has(text, "mov.b16 %h1, 3;",
      "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64")
    has(text, "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32", "tcgen05.relinquish_alloc_permit.cta_group::2")
    local last = text:match "L_done:\n(.*)"
    has(last, "barrier.cluster.arrive;\n\tbarrier.cluster.wait;")
    assert.is_true(last:find("barrier.cluster.wait", 1, true) < last:find("tcgen05.dealloc.cta_group::2", 1, true))
    assert.are.equal(1, count(last, "barrier.cluster.wait"))
  end)

  it("has the instruction descriptor of M = 128, and of a block-scaled M = 256", function()
    has(collective.matmul{ rows = 64, dtype = tc.bfloat16, b_transposed = true }:ptx{ target = "sm_100a" }, "0x8400490")
    has(collective.tile{ n = 256, k = 256, a = tc.e2m1, b = tc.e2m1, d = tc.f32, b_transposed = true, scale = tc.e4m3,
      block = 16 }:ptx{ target = "sm_100a" }, "0x10400480")
  end)

  it("shows where arrivals are tracked", function()
    local text = collective.persistent{ m = 256, cols = 256, k = 64, clusters = 1, tracked = true }
      :dump("roles", { target = "sm_100a" })
    assert.matches("read         x 2, count 8 %(num_arrivals 1 x unit 4 x 2 CTAs, at the first%)", text)
    assert.matches("copy at line %d+ in role load, at the leader", text)
  end)

  it("releases at cluster scope what threads pass on, and nothing where the tensor core arrives", function()
    local own = collective.matmul{ copies = "own" }:ptx{ target = "sm_100a" }
    has(own, "mbarrier.arrive.release.cluster.shared::cluster.b64", "mbarrier.try_wait.parity.acquire.cluster")
    local tracked = collective.matmul{}:ptx{ target = "sm_100a" }
    assert.are.equal(0, count(tracked, "acquire.cluster") + count(tracked, "release.cluster.shared"))
  end)
end)

describe("A recording of two CTAs", function()
  for _, rows in ipairs{ 64, 128 } do
    it(("shows what it has recorded, and each CTA's accumulator, M = %d"):format(2 * rows), function()
      local k, a, b = tc.record{ cluster = { 2 }, cluster_names = { "cta" }, target = "sm_100a",
        args = { tc.gmem({ 2 * rows, 64 }, tc.f16), tc.gmem({ 64, 64 }, tc.f16) } }
      local cta, acc = tc.axis_index "cta", tc.tmem({ 2, rows, 64 }, tc.f32, { collective = true })
      local a_smem, b_smem = tc.smem({ rows, 64 }, tc.f16), tc.smem({ 64, 32 }, tc.f16)
      local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
      tc.copy_gmem_to_smem(a, a_smem, loaded, { collective_axes = "cta", leader_tracked = "partitioned",
        partition_axis = 0 })
      tc.copy_gmem_to_smem(b, b_smem, loaded, { collective_axes = "cta", leader_tracked = "partitioned",
        partition_axis = 1 })
      tc.when(cta:eq(0), function()
        tc.barrier_wait(loaded)
        tc.mma(acc[1], a_smem, b_smem, { accumulate = false, collective_axis = "cta" })
        tc.commit_arrive(done, { collective_axis = "cta" })
      end)
      tc.barrier_wait(done)
      local text = k:ops()
      for _, part in ipairs{ "leader_tracked=partitioned%(1%)",
        "mma tmem0%[1, :, :%] = smem1 @ smem2 collective_axis=cta",
                             "commit_arrive barrier1 collective_axis=cta" } do
        assert.matches(part, text)
      end
      local inputs = { tc.randint({ 2 * rows, 64 }, tc.f16, { low = -3, high = 4, seed = 1 }),
                       tc.randint({ 64, 64 }, tc.f16, { low = -3, high = 4, seed = 2 }) }
      local expected = tc.reference.matmul(inputs[1], inputs[2]):totable()
      local got = {}
      for i = 0, 1 do got[i] = acc[1]:peek{ args = inputs, cta = { i, 0, 0 }, quiet = true }:totable() end
      k:close()
      for i = 1, 2 * rows do assert.are.same(expected[i], got[(i - 1) // rows][(i - 1) % rows + 1]) end
    end)
  end
end)

describe("Kernels of two CTAs", function()
  it("were assembled", function()
    if no_assembler then return pending(no_assembler) end
  end)
end)
