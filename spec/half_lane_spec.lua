-- Column slices of tensor memory with 64 rows of one CTA, which lie in 16 lanes of each warp's window: loads, stores
-- and MMAs of slices, against copies and the product in double precision.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local modes = { "fast", "check", "random" }
local targets = { "sm_100a", "sm_103a" }

local function describe_case(o)
  local text = {}
  for key, value in pairs(o) do text[#text + 1] = key .. "=" .. tostring(value) end
  table.sort(text)
  return table.concat(text, " ")
end

local function agrees(kernel, o, out, expected, ...)
  local text = describe_case(o)
  for _, target in ipairs(o.d == tc.i32 and o.a ~= tc.i32 and { "sm_100a" } or targets) do
    local ok, message, code = kernels.assembles(kernel, target)
    if not ok and code ~= "no-library" then error(text .. ": " .. message) end
    for seed, mode in ipairs(modes) do
      out:fill(0)
      local inputs = table.pack(...)
      inputs[#inputs + 1] = out
      local report = kernel:emulate({ target = target, mode = mode, seed = seed }, table.unpack(inputs))
      if #report.hazards > 0 then error(text .. ": " .. report.hazards[1].message) end
      local off = tc.max_error(out, expected)
      if off ~= 0 then error(("%s, %s, mode %s: off by %g"):format(text, target, mode, off)) end
    end
  end
end

local function exact(shape, dtype, seed)
  if dtype == tc.u8 then return tc.randint(shape, dtype, { low = 0, high = 256, seed = seed }) end
  return tc.randint(shape, dtype, { low = -3, high = 4, seed = seed })
end

-- Stores in slices of `store` columns and loads in slices of `load`; o.slot: of how many the tile is the last;
-- o.recorded: the slices are those of a loop.
local function round_trip(o)
  local n, warpgroups = o.n, o.warpgroups or 1
  return tc.kernel{
    name = "round_trip", args = { tc.gmem({ 64, n }, o.a), tc.gmem({ 64, n }, o.a) },
    body = function(a, out)
      local whole = tc.tmem(o.slots and { o.slots, 64, n } or { 64, n }, o.a, { packed = o.packed })
      tc.role{ name = "all", warpgroups = warpgroups }(function()
        local tile = o.slots and whole[o.slots - 1] or whole
        local function slices(width, fn)
          if o.recorded then
            tc.range(n // width, function(i) fn(tc.ds(i * width, width)) end)
          else
            for c = 0, n - 1, width do fn(tc.ds(c, width)) end
          end
        end
        slices(o.store, function(part) tc.async_store_tmem(tile:at(tc.all, part), a:at(tc.all, part):load()) end)
        tc.commit_tmem()
        slices(o.load, function(part) out:at(tc.all, part):store(tc.async_load_tmem(tile:at(tc.all, part))) end)
      end)
    end,
  }
end

-- out = A * B, whose columns are multiplied in slices, the last first, each into its slice of the accumulator.
-- o: n, k, width; a, b, d: dtypes; load: width of the loads; slots: of accumulators, the tile is in the last;
-- a_parts: A lies in tensor memory and is read in so many slices of K; recorded: the slices are those of a loop.
local function matmul(o)
  local n, k, width, load = o.n, o.k, o.width, o.load or o.width
  local b_dtype, d = o.b or o.a, o.d or tc.f32
  return tc.kernel{
    name = "slices", args = { tc.gmem({ 64, k }, o.a), tc.gmem({ n, k }, b_dtype), tc.gmem({ 64, n }, d) },
    body = function(a, b, out)
      local a_smem, b_smem = tc.smem({ 64, k }, o.a), tc.smem({ n, k }, b_dtype)
      local alone = d == tc.f16 and { packed = false } or nil
      local whole = tc.tmem(o.slots and { o.slots, 64, n } or { 64, n }, d, alone)
      local a_tmem = o.a_parts and tc.tmem({ 64, k }, o.a, { packed = o.a.bits < 32 or nil })
      local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
      local acc = o.slots and whole[o.slots - 1] or whole
      tc.copy_gmem_to_smem(a, a_smem, loaded)
      tc.copy_gmem_to_smem(b, b_smem, loaded)
      tc.barrier_wait(loaded)
      if a_tmem then
        tc.async_store_tmem(a_tmem, a_smem:load())
        tc.commit_tmem()
      end
      local function multiply(i)
        local rows = tc.ds(i * width, width)
        local parts = o.a_parts or 1
        for p = 0, parts - 1 do
          local along_k = tc.ds(p * (k // parts), k // parts) -- whole swizzles of B
          tc.mma(acc:at(tc.all, rows), a_tmem and a_tmem:at(tc.all, along_k) or a_smem,
            b_smem:at(rows, along_k):T(), { accumulate = p > 0 })
        end
      end
      if o.recorded then
        tc.range(n // width, multiply)
      else
        for i = n // width - 1, 0, -1 do multiply(i) end
      end
      tc.commit_arrive(done)
      tc.barrier_wait(done)
      for c = 0, n - 1, load do
        local columns = tc.ds(c, load)
        out:at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
      end
    end,
  }
end

local function multiplies(o)
  local a, b = exact({ 64, o.k }, o.a, 1), exact({ o.n, o.k }, o.b or o.a, 2)
  agrees(matmul(o), o, tc.zeros({ 64, o.n }, o.d or tc.f32), tc.reference.matmul(a, b, { transpose_b = true }), a, b)
end

describe("Tensor memory of 64 rows", function()
  local function travels(o)
    local a = exact({ 64, o.n }, o.a, 3)
    agrees(round_trip(o), o, tc.zeros({ 64, o.n }, o.a), a, a)
  end

  it("is stored and loaded by slices of columns", function()
    for _, widths in ipairs{ { 64, 8 }, { 8, 64 }, { 16, 32 }, { 32, 16 } } do
      travels{ a = tc.f32, n = 64, store = widths[1], load = widths[2] }
    end
    travels{ a = tc.i32, n = 192, store = 96, load = 24 }
  end)

  it("so is that of narrower types, packed and alone in their columns", function()
    travels{ a = tc.f16, packed = false, n = 64, store = 16, load = 32 }
    travels{ a = tc.f16, packed = true, n = 64, store = 32, load = 16 }
    travels{ a = tc.bf16, packed = true, n = 64, store = 16, load = 64 }
    travels{ a = tc.e5m2, packed = true, n = 128, store = 32, load = 64 }
  end)

  it("also with recorded starts, in slots and by two warpgroups", function()
    travels{ a = tc.f32, n = 128, store = 32, load = 16, recorded = true }
    travels{ a = tc.f32, n = 64, store = 32, load = 32, slots = 3 }
    travels{ a = tc.f32, n = 128, store = 64, load = 32, warpgroups = 2 }
    travels{ a = tc.f16, packed = true, n = 128, store = 64, load = 32, warpgroups = 2, recorded = true }
  end)

  it("takes MMAs into slices, of every kind", function()
    multiplies{ a = tc.f16, n = 128, k = 64, width = 32 }
    multiplies{ a = tc.f16, d = tc.f16, n = 128, k = 64, width = 64, load = 32 }
    multiplies{ a = tc.bf16, n = 64, k = 64, width = 8 }
    multiplies{ a = tc.f32, n = 64, k = 32, width = 16, load = 64 }
    multiplies{ a = tc.e4m3, b = tc.e5m2, n = 128, k = 128, width = 64, load = 16 }
    multiplies{ a = tc.i8, d = tc.i32, n = 64, k = 128, width = 16 }
    multiplies{ a = tc.u8, b = tc.i8, d = tc.i32, n = 64, k = 128, width = 32, load = 64 }
  end)

  it("takes them with a recorded slice, and in the last of several slots", function()
    multiplies{ a = tc.f16, n = 128, k = 64, width = 32, recorded = true }
    multiplies{ a = tc.f16, n = 64, k = 64, width = 32, slots = 2 }
  end)

  it("has slices of an operand A", function()
    multiplies{ a = tc.f16, n = 64, k = 256, width = 32, a_parts = 4 }
    multiplies{ a = tc.e4m3, n = 64, k = 256, width = 64, a_parts = 2 }
  end)

  it("is wider than one warpgroup's registers where it is loaded in slices", function()
    multiplies{ a = tc.f16, n = 512, k = 64, width = 512, load = 64 }
    multiplies{ a = tc.f16, n = 512, k = 64, width = 256, load = 256 }
  end)

  -- On Hopper it is registers, whose slices are legal there as here.
  it("has the same slices on sm_90a", function()
    local o = { a = tc.f16, n = 128, k = 64, width = 32 }
    local a, b = exact({ 64, o.k }, o.a, 1), exact({ o.n, o.k }, o.a, 2)
    local kernel, out = matmul(o), tc.zeros({ 64, o.n }, tc.f32)
    for _, mode in ipairs(modes) do
      local report = kernel:emulate({ target = "sm_90a", mode = mode }, a, b, out)
      assert.are.same({}, report.hazards)
      assert.are.equal(0, tc.max_error(out, tc.reference.matmul(a, b, { transpose_b = true })))
    end
  end)

  it("shows a slice's values at the prompt", function()
    local k = tc.record{ name = "peek" }
    local t = tc.tmem({ 64, 32 }, tc.f32)
    tc.async_store_tmem(t, tc.full({ 64, 32 }, 1, tc.f32))
    tc.async_store_tmem(t:at(tc.all, tc.ds(16, 8)), tc.iota({ 64, 8 }, 0, tc.f32))
    local values = t:at(tc.all, tc.ds(8, 16)):peek{ quiet = true }:totable()
    k:close()
    for m = 1, 64 do
      assert.are.equal(1, values[m][8])
      assert.are.equal(m - 1, values[m][9])
      assert.are.equal(m - 1, values[m][16])
    end
  end)
end)
