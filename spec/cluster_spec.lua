-- Clusters: multicast copies, rings released by every CTA, stores into a peer's shared memory.
-- Results against the product in double precision, in the emulator's three modes.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local modes = require "modes"
local helper = require "helper"
local cluster = require "cluster_kernels"


local in_all_modes, assembles = modes.each, modes.assembles

describe("a ring of multicast tiles", function()
  for _, case in ipairs{ { 2, 1 }, { 1, 2 }, { 4, 1 }, { 2, 2 }, { 1, 4 } } do
    for _, stages in ipairs{ 1, 3 } do
      local rows, columns = case[1], case[2]
      it(("%d x %d CTAs, %d stages"):format(rows, columns, stages), function()
        local steps = stages + 2
        local kernel = cluster.multicast{ rows = rows, columns = columns, stages = stages, steps = steps }
        local a = kernels.integers({ 128 * rows, 64 * steps }, tc.float16, 1)
        local b = kernels.integers({ 64 * steps, 64 * columns }, tc.float16, 2)
        local expected = tc.reference.matmul(a, b)
        for _, target in ipairs{ "sm_90a", "sm_100a" } do
          in_all_modes(target, function(options)
            local out = tc.zeros({ 128 * rows, 64 * columns }, tc.float32)
            kernels.run(kernel, options, a, b, out)
            assert.are.equal(0, (tc.max_error(out, expected)))
          end)
          assembles(kernel, target)
        end
      end)
    end
  end

  for _, case in ipairs{ { m = 300, n = 200, k = 200, tn = 64, stages = 3, clusters = 2 },
                         { m = 256, n = 64, k = 64, tn = 64, stages = 2, clusters = 1 },
                         { m = 520, n = 136, k = 328, tn = 128, stages = 4, clusters = 3 } } do
    it(("walks over the tiles of %d x %d x %d"):format(case.m, case.n, case.k), function()
      local kernel = cluster.persistent(case)
      local a = kernels.integers({ case.m, case.k }, tc.bfloat16, 1)
      local b = kernels.integers({ case.k, case.n }, tc.bfloat16, 2)
      local expected = tc.reference.matmul(a, b)
      for _, target in ipairs{ "sm_90a", "sm_100a" } do
        in_all_modes(target, function(options)
          local out = tc.zeros({ case.m, case.n }, tc.float32)
          kernels.run(kernel, options, a, b, out)
          assert.are.equal(0, (tc.max_error(out, expected)))
        end)
        assembles(kernel, target)
      end
    end)
  end

  it("pays no .release.cluster where only the tensor core reads, on Hopper neither", function()
    local text = cluster.multicast{ rows = 2, columns = 1, steps = 4 }:ptx{ target = "sm_90a" }
    assert.is_truthy(text:find("mbarrier.arrive.shared::cluster.b64", 1, true))
    assert.is_nil(text:find("release.cluster.shared", 1, true))
  end)

  it("counts the arrivals of every CTA that reaches a barrier", function()
    local text = cluster.multicast{ rows = 2, columns = 2, steps = 4 }:dump("roles", { target = "sm_100a" })
    assert.is_truthy(text:find("count 3 (num_arrivals 1 x unit 1 x 3 CTAs)", 1, true))
  end)
end)

describe("multicast copies", function()
  local cases = {
    { size = 2, shape = { 64, 64 }, dtype = tc.float16 },
    { size = 4, shape = { 64, 128 }, dtype = tc.float16 },
    { size = 2, shape = { 8, 128 }, dtype = tc.float16 },
    { size = 4, shape = { 16, 64 }, dtype = tc.float32 },
    { size = 2, shape = { 64, 64 }, dtype = tc.float16, fragments = true },
    { size = 2, shape = { 32, 32 }, dtype = tc.float32, swizzle = "none" },
    { size = 2, shape = { 1, 256 }, dtype = tc.float32, swizzle = "none" },
    { size = 4, shape = { 2, 512 }, dtype = tc.float16, swizzle = "none" },
    { size = 2, shape = { 64, 64 }, dtype = tc.float16, warps = 2 },
    { size = 3, shape = { 48, 64 }, dtype = tc.float16 },
    { size = 8, shape = { 64, 64 }, dtype = tc.float16 },
  }
  for _, case in ipairs(cases) do
    for _, target in ipairs{ "sm_90a", "sm_100a" } do
      local title = ("%d CTAs, (%d, %d) of %s%s%s, %s"):format(case.size, case.shape[1], case.shape[2],
        tostring(case.dtype), case.swizzle and ", plain" or "", case.fragments and ", fragments" or "", target)
      it(title, function()
        local steps = 5
        local o = { steps = steps, stages = 2 }
        for key, value in pairs(case) do o[key] = value end
        local kernel = cluster.pass(o)
        local R, C = case.shape[1], case.shape[2]
        local a = kernels.integers({ steps * R, C }, case.dtype, 3)
        in_all_modes(target, function(options)
          local out = tc.zeros({ case.size * steps * R, C }, case.dtype)
          kernels.run(kernel, options, a, out)
          local expected, got = a:totable(), out:totable()
          for i = 1, case.size * steps * R do
            assert.are.same(expected[(i - 1) % (steps * R) + 1], got[i])
          end
        end)
        assembles(kernel, target)
      end)
    end
  end

  it("may be partitioned: each CTA loads its own part of what they load together", function()
    local kernel = tc.kernel{
      name = "parts", cluster = { 2 }, cluster_names = { "cta" },
      args = { tc.gmem({ 128, 64 }, tc.float16), tc.gmem({ 128, 64 }, tc.float16) },
      body = function(a, out)
        local smem, loaded = tc.smem({ 64, 64 }, tc.float16), tc.barrier{}
        tc.copy_gmem_to_smem(a, smem, loaded, { collective_axes = "cta", partition_axis = 0 })
        tc.barrier_wait(loaded)
        tc.copy_smem_to_gmem(smem, out:tile({ tc.axis_index "cta", 0 }, { 64, 64 }))
        tc.wait_smem_to_gmem(0)
      end,
    }
    for _, target in ipairs{ "sm_90a", "sm_100a" } do
      local a, out = kernels.integers({ 128, 64 }, tc.float16, 4), tc.zeros({ 128, 64 }, tc.float16)
      kernels.run(kernel, { target = target }, a, out)
      assert.are.equal(0, (tc.max_error(out, a)))
      assembles(kernel, target)
    end
  end)
end)

describe("tc.cluster_ref", function()
  for _, target in ipairs{ "sm_90a", "sm_100a" } do
    for number, how in ipairs{ "arrival", "counted", "arrival", "counted" } do
      local size = number < 3 and 2 or 4
      it(("lets %d CTAs reduce in rank order, %s, %s"):format(size, how, target), function()
        local R, C = 64, 32
        local kernel = cluster.reduce(size, R, C, how)
        local parts = tc.randn({ size, 2 * R, C }, tc.float32, { seed = 5 })
        local p, first = parts:totable(), nil
        in_all_modes(target, function(options)
          local out = tc.zeros({ 2 * R, C }, tc.float32)
          kernels.run(kernel, options, parts, out)
          local got = out:totable()
          for i = 1, 2 * R do
            for j = 1, C do
              local sum = p[1][i][j]
              for s = 2, size do sum = string.unpack("f", string.pack("f", sum + p[s][i][j])) end
              assert.are.equal(sum, got[i][j])
            end
          end
          first = first or got
          assert.are.same(first, got)
        end)
        assembles(kernel, target)
      end)
    end

    it("stores scalars, " .. target, function()
      local kernel = cluster.reduce(2, 16, 32, "scalar")
      local parts, out = tc.zeros({ 2, 32, 32 }, tc.float32), tc.zeros({ 32, 32 }, tc.float32)
      kernels.run(kernel, { target = target, mode = "random", seed = 3 }, parts, out)
      local got = out:totable()
      assert.are.equal(7.5, got[1][1])
      assert.are.equal(7.5, got[17][1])
      assert.are.equal(0, got[1][2])
      assembles(kernel, target)
    end)
  end

  local pair = { args = { tc.gmem({ 128, 64 }, tc.float16) }, cluster = { 2 }, cluster_names = { "x" } }
  helper.refuses("of a cluster barrier is refused", "Remapping a non-local ref unsupported.", function()
    local b = tc.cluster_barrier{ collective_axes = "x" }
    return function() tc.cluster_ref(b, 1) end
  end, pair)
  helper.refuses("of a peer is refused", "This is a reference to another CTA already.", function()
    local s = tc.smem({ 64 }, tc.float32)
    return function() tc.cluster_ref(tc.cluster_ref(s, 0), 1) end, function() tc.cluster_ref(s, 1) end
  end, pair)
  helper.refuses("of a rank outside is refused",
    "The cluster has 2 CTAs, of ranks from 0; there is none of rank 2.", function()
      local s = tc.smem({ 64 }, tc.float32)
      return function() tc.cluster_ref(s, 2) end, function() tc.cluster_ref(s, 1) end
    end, pair)
  helper.refuses("without a cluster is refused", "No cluster axes found.", function()
    local s = tc.smem({ 64 }, tc.float32)
    return function() tc.cluster_ref(s, 0) end
  end)
  it("of an argument is refused", function()
    helper.recording(pair, function(_, x)
      assert.matches("^ref must be a SMEM reference, got GMEM ref",
        helper.first_line(helper.message(function() tc.cluster_ref(x, 0) end)))
      assert.equal("ref must be a reference, got nil",
        helper.first_line(helper.message(function() tc.cluster_ref(nil, 0) end)))
    end)
  end)
  helper.refuses("cannot be waited for", "Can only await on CTA-local barriers", function()
    local b = tc.barrier{}
    return function() tc.barrier_wait(tc.cluster_ref(b, 1)) end,
      function() tc.barrier_arrive(tc.cluster_ref(b, 1)) end
  end, pair)
  local peers = "Peer device references are not allowed in the lowering of this primitive."
  helper.refuses("cannot be loaded", peers, function()
    local s = tc.smem({ 64, 64 }, tc.float32)
    return function() tc.cluster_ref(s, 1):load() end, function() tc.cluster_ref(s, 1):store(1) end
  end, pair)
  helper.refuses("takes a store with a barrier, of the peer's SMEM alone",
    "A store with a barrier goes into the SMEM of another CTA: tc.cluster_ref(ref, rank):store(value, {barrier = b})",
    function()
      local s, b = tc.smem({ 64, 64 }, tc.float32), tc.barrier{}
      return function() s:store(1, { barrier = b }) end,
        function() tc.cluster_ref(s, 1):store(1, { barrier = b }) end
    end, pair)
  helper.refuses("takes a store with a barrier, of 32 bits",
    "A store with a barrier moves elements of 32 bits, got float16",
    function()
      local s, t, b = tc.smem({ 64, 64 }, tc.float16), tc.smem({ 64, 64 }, tc.float32), tc.barrier{}
      return function() tc.cluster_ref(s, 1):store(1, { barrier = b }) end,
        function() tc.cluster_ref(t, 1):store(1, { barrier = b }) end
    end, pair)
  helper.refuses("takes a store with a barrier, not with another's", "The barrier of a store is a tc.barrier, not a "
    .. "reference to another CTA's or a tc.cluster_barrier: it is the one of the CTA that the store goes to", function()
    local s, b = tc.smem({ 64, 64 }, tc.float32), tc.barrier{}
    return function() tc.cluster_ref(s, 1):store(1, { barrier = tc.cluster_ref(b, 1) }) end,
      function() tc.cluster_ref(s, 1):store(1, { barrier = b }) end
  end, pair)
  helper.refuses("takes a store with a barrier, not of an element",
    "option 'barrier' is for fragments; this is one element:", function()
    local s, b = tc.smem({ 64, 64 }, tc.float32), tc.barrier{}
    return function() tc.cluster_ref(s, 1)[0][0]:store(1.0, { barrier = b }) end,
      function() tc.cluster_ref(s, 1)[0][0]:store(1.0) end
  end, pair)
  helper.refuses("cannot be copied into", peers, function(x)
    local s, b = tc.smem({ 128, 64 }, tc.float16), tc.barrier{}
    return function() tc.copy_gmem_to_smem(x, tc.cluster_ref(s, 1), b) end,
      function() tc.copy_gmem_to_smem(x, s, b) end
  end, pair)
  helper.refuses("cannot take a copy's arrival", peers, function(x)
    local s, b = tc.smem({ 128, 64 }, tc.float16), tc.barrier{}
    return function() tc.copy_gmem_to_smem(x, s, tc.cluster_ref(b, 1)) end
  end, pair)
  helper.refuses("cannot be copied from", peers, function(x)
    local s = tc.smem({ 128, 64 }, tc.float16)
    return function() tc.copy_smem_to_gmem(tc.cluster_ref(s, 1), x) end, function() tc.copy_smem_to_gmem(s, x) end
  end, pair)
end)

describe("multicast copies refuse", function()
  local pair = { args = { tc.gmem({ 256, 64 }, tc.float16) }, cluster = { 2 }, cluster_names = { "x" } }
  local differing = { src = { true, false, false }, dst = { false, true, false },
    ["the barrier"] = { false, false, true } }
  for what, index in pairs(differing) do
    helper.refuses(what .. " that differs among the CTAs",
      "The CTAs along \"x\" load one tile together, but " .. what .. " differs among them.", function(a)
        local smem, loaded = tc.smem({ 2, 64, 64 }, tc.float16), tc.barrier{ num_barriers = 2 }
        local x = tc.axis_index "x"
        local function copy(n)
          return function()
            tc.copy_gmem_to_smem(a:tile({ n[1] and x + 1 or 0, 0 }, { 64, 64 }), smem[n[2] and x or 0],
              loaded[n[3] and x or 0], { collective_axes = "x" })
          end
        end
        return copy(index), copy{}
      end, pair)
  end

  local function only_some(decide)
    return function(a)
      local smem, loaded = tc.smem({ 64, 64 }, tc.float16), tc.barrier{}
      decide(tc.axis_index "x", function()
        tc.copy_gmem_to_smem(a:tile({ 0, 0 }, { 64, 64 }), smem, loaded, { collective_axes = "x" })
        tc.barrier_wait(loaded)
      end)
    end
  end
  local condition = "Every CTA along \"x\" has to make this copy, but whether or how often it is made "
    .. "depends on the index along it."
  helper.build_refuses("a copy that some CTAs make", condition, pair,
    only_some(function(x, copy) tc.when(x:eq(0), copy) end))
  helper.build_refuses("a copy that some CTAs make more often", condition, pair,
    only_some(function(x, copy) tc.range(x + 1, copy) end))
  helper.builds("nothing that other axes decide",
    { args = pair.args, cluster = { 2, 2 }, cluster_names = { "y", "x" } },
    only_some(function(_, copy) tc.when(tc.axis_index("y"):eq(0), copy) end))

  local function release(make)
    return function(a)
      local smem, loaded, freed = tc.smem({ 2, 64, 64 }, tc.float16), tc.barrier{ num_barriers = 2 }, make()
      tc.role{ name = "load", warps = 1 }(function()
        tc.range(4, function(i)
          tc.when(i:ge(2), function() tc.barrier_wait(freed[i % 2]) end)
          tc.copy_gmem_to_smem(a:tile({ i, 0 }, { 64, 64 }), smem[i % 2], loaded[i % 2], { collective_axes = "x" })
        end)
      end)
      tc.role{ name = "use", warps = 1 }(function()
        tc.range(4, function(i)
          tc.barrier_wait(loaded[i % 2])
          tc.barrier_arrive(freed[i % 2])
        end)
      end)
    end
  end
  local options = { args = { tc.gmem({ 256, 64 }, tc.float16) }, cluster = { 2, 2 }, cluster_names = { "y", "x" } }
  local text = "This multicast copy writes a slot in every CTA along \"x\", but its role learns from its own CTA "
    .. "alone that the slot is free."
  helper.build_refuses("a slot that a barrier of one CTA releases", text, options,
    release(function() return tc.barrier{ num_barriers = 2 } end))
  helper.build_refuses("a slot that other axes release", text, options,
    release(function() return tc.cluster_barrier{ collective_axes = "y", num_barriers = 2 } end))
  helper.builds("nothing that the same axes release", options,
    release(function() return tc.cluster_barrier{ collective_axes = { "x" }, num_barriers = 2 } end))
  helper.builds("nothing that more axes release", options,
    release(function() return tc.cluster_barrier{ collective_axes = { { "y", "x" } }, num_barriers = 2 } end))
end)

describe("the code of a cluster", function()
  it("releases with .release.cluster only what threads have touched", function()
    local plain = cluster.multicast{ rows = 2, columns = 1, steps = 4 }:ptx{ target = "sm_100a" }
    assert.is_nil(plain:find("release.cluster.shared", 1, true))
    assert.is_truthy(plain:find("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
      .. ".multicast::cluster.b64", 1, true))
    local touched = cluster.pass{ size = 2, steps = 4, stages = 2, shape = { 64, 64 }, dtype = tc.float16,
      fragments = true }:ptx{ target = "sm_90a" }
    assert.is_truthy(touched:find("mbarrier.arrive.release.cluster.shared::cluster", 1, true))
    assert.is_truthy(touched:find("try_wait.parity.acquire.cluster", 1, true))
    local copies = cluster.pass{ size = 2, steps = 4, stages = 2, shape = { 64, 64 }, dtype = tc.float16 }
      :ptx{ target = "sm_90a" }
    assert.is_truthy(copies:find("mbarrier.arrive.shared::cluster.b64", 1, true))
    assert.is_nil(copies:find("acquire.cluster", 1, true))
  end)
end)
