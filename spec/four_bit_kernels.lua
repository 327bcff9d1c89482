-- Kernels with elements of 4 bits, and what such elements are on the host.
local tc = require "tcmma"

local M = {}

-- Every code of float4_e2m1fn.
M.e2m1 = { [0] = 0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6 }

-- The value that the four bits of `code` stand for.
function M.value(dtype, code)
  if dtype == tc.e2m1 then return M.e2m1[code] end
  return dtype == tc.i4 and code >= 8 and code - 16 or code
end

-- Pseudo-random codes, all of them among the first sixteen, in rows of nested tables.
function M.codes(count, seed)
  local codes, state = {}, seed or 1
  for i = 1, count do
    state = (state * 1103515245 + 12345) % (1 << 31)
    codes[i] = i <= 16 and i - 1 or state >> 16 & 15
  end
  return codes
end

-- An array of these codes, made from its bytes: the first element of two in the low bits.
function M.array(shape, dtype, codes)
  local bytes, rows = {}, {}
  for i = 1, #codes, 2 do bytes[#bytes + 1] = codes[i] | codes[i + 1] << 4 end
  for d = 1, #shape do rows[d] = shape[d] end
  rows[#rows] = rows[#rows] // 2
  return tc.from_table(bytes, tc.u8):reshape(rows):view(dtype)
end

function M.random(shape, dtype, seed)
  local count = 1
  for _, size in ipairs(shape) do count = count * size end
  local codes = M.codes(count, seed)
  return M.array(shape, dtype, codes), codes
end

-- The codes of an array, from its bytes.
function M.codes_of(array)
  local codes, rows = {}, array:view(tc.u8)
  for _, byte in ipairs(rows:reshape{ rows.elements }:totable()) do
    codes[#codes + 1] = byte & 15
    codes[#codes + 1] = byte >> 4
  end
  return codes
end

local function one_cta(name, args, body, target)
  return tc.kernel{ name = name, args = args, body = body, target = target }
end

-- GMEM -> SMEM -> registers -> SMEM -> GMEM, with a change of type between.
-- o: shape, from, to, swizzle; plain: no SMEM on the way; transposed: loaded and stored as its transpose.
function M.converted(o)
  local shape = o.shape
  local out_shape = o.transposed and { shape[2], shape[1] } or shape
  return one_cta("converted", { tc.gmem(shape, o.from), tc.gmem(out_shape, o.to) }, function(source, target)
    local tile = source
    if not o.plain then
      local loaded = tc.barrier{}
      tile = tc.smem(shape, o.from, { swizzle = o.swizzle })
      tc.copy_gmem_to_smem(source, tile, loaded)
      tc.barrier_wait(loaded)
    end
    target:store((o.transposed and tile:T() or tile):load():astype(o.to))
  end, o.target)
end

-- Through tensor memory.  o: shape, dtype, warpgroups, columns (of the slices that are loaded), copied: from SMEM.
function M.through_tmem(o)
  local shape = o.shape
  return one_cta("through_tmem", { tc.gmem(shape, o.dtype), tc.gmem(shape, o.dtype) }, function(source, target)
    tc.role{ name = "all", warpgroups = o.warpgroups or 1 }(function()
      local tile = tc.tmem(shape, o.dtype, { packed = true })
      if o.copied then
        local staged, loaded, done = tc.smem(shape, o.dtype), tc.barrier{}, tc.barrier{ orders_tensor_core = true }
        tc.copy_gmem_to_smem(source, staged, loaded)
        tc.barrier_wait(loaded)
        tc.async_copy_smem_to_tmem(staged, tile)
        tc.commit_arrive(done)
        tc.barrier_wait(done)
      else
        tc.async_store_tmem(tile, source:load())
        tc.commit_tmem()
      end
      local columns = o.columns or shape[2]
      for c = 0, shape[2] - 1, columns do
        local part = tc.ds(c, columns)
        target:at(tc.all, part):store(tc.async_load_tmem(tile:at(tc.all, part)))
      end
    end)
  end, o.target)
end

-- out = (weights of 4 bits * a scale a row) * b: the weights become bfloat16 in registers, and A of the MMA from there.
-- o: m, n, k, tk, dtype.
function M.mixed(o)
  return one_cta("mixed", { tc.gmem({ o.m, o.k }, o.dtype), tc.gmem({ o.m }, tc.f32), tc.gmem({ o.k, o.n }, tc.bf16),
    tc.gmem({ o.m, o.n }, tc.f32) }, function(weights, scales, b, out)
    local w_smem, b_smem = tc.smem({ o.m, o.tk }, o.dtype), tc.smem({ o.tk, o.n }, tc.bf16)
    local a_tmem, acc = tc.tmem({ o.m, o.tk }, tc.bf16, { packed = true }), tc.tmem({ o.m, o.n }, tc.f32)
    local loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }
    tc.range(o.k // o.tk, function(step)
      tc.copy_gmem_to_smem(weights:tile({ 0, step }, { o.m, o.tk }), w_smem, loaded)
      tc.copy_gmem_to_smem(b:tile({ step, 0 }, { o.tk, o.n }), b_smem, loaded)
      tc.barrier_wait(loaded)
      tc.async_store_tmem(a_tmem, w_smem:load():astype(tc.bf16))
      tc.commit_tmem()
      tc.mma(acc, a_tmem, b_smem, { accumulate = step:gt(0) })
      tc.commit_arrive(done)
      tc.barrier_wait(done)
    end)
    out:store(tc.async_load_tmem(acc) * scales:load():broadcast({ o.m, o.n }, 1))
  end)
end

return M
