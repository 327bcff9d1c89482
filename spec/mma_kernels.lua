-- One tile of every kind of tc.mma, with its operands stored as asked; references on the host.
local tc = require "tcmma"

local M = {}

local function smem(shape, dtype, swizzle, padded)
  local options = { padded = padded }
  if swizzle == "none" then
    options.swizzle, options.tiling = "none", { 8, 128 // ((padded or dtype.bits == 6) and 8 or dtype.bits) }
  else
    options.swizzle = swizzle
  end
  return tc.smem(shape, dtype, options)
end

-- The tile a view of K from `first` on, `size` long.
local function along_k(ref, transposed, first, size)
  local part = tc.ds(first, size)
  return transposed and ref:at(part, tc.all):T() or ref:at(tc.all, part)
end

-- out = a * b.  options: m, n, k; a, b, d: dtypes; a_transposed: a is stored (K, M); b_transposed: b is
-- stored (N, K); a_swizzle, b_swizzle: bytes or "none"; padded: 4-bit elements in bytes;
-- a_tmem: "store" or "copy" brings A to tensor memory through registers, or from SMEM;
-- parts: K in as many calls of tc.mma; scale: dtype of the scale factors, block: elements that share one;
-- slots: the scales lie in as many slots, one for each part, with a recorded index.
function M.tile(o)
  local m, n, k, parts = o.m, o.n, o.k, o.parts or 1
  local a_shape, b_shape = o.a_transposed and { k, m } or { m, k }, o.b_transposed and { n, k } or { k, n }
  local blocks, b_rows = o.scale and k // o.block, (n + 127) // 128 * 128
  local args = { tc.gmem(a_shape, o.a), tc.gmem(b_shape, o.b), tc.gmem({ m, n }, o.d) }
  if o.scale then
    args[4] = tc.gmem({ 1, blocks // 4, 32, 16 }, o.scale)
    args[5] = tc.gmem({ b_rows // 128, blocks // 4, 32, 16 }, o.scale)
  end
  return tc.kernel{
    name = "tile", args = args, grid = { 1 }, grid_names = { "x" }, target = o.target,
    body = function(a, b, out, a_scales, b_scales)
      local a_smem = smem(a_shape, o.a, o.a_swizzle, o.padded and o.a == tc.e2m1 or nil)
      local b_smem = smem(b_shape, o.b, o.b_swizzle, o.padded and o.b == tc.e2m1 or nil)
      local acc = o.d == tc.f16 and tc.tmem({ m, n }, o.d, { packed = false }) or tc.tmem({ m, n }, o.d)
      local spread = o.padded and o.a.bits < 8
      local a_tmem = o.a_tmem
        and tc.tmem({ m, k }, o.a, { packed = not spread and o.a.bits < 32 or nil, padded = spread or nil })
      local loaded = tc.barrier{ num_arrivals = o.scale and 4 or 2 }
      local done = tc.barrier{ orders_tensor_core = true }
      local options = {}
      tc.copy_gmem_to_smem(a, a_smem, loaded)
      tc.copy_gmem_to_smem(b, b_smem, loaded)
      if o.scale then
        local a_plain = tc.smem(a_scales.shape, o.scale, { swizzle = "none" })
        local b_plain = tc.smem(b_scales.shape, o.scale, { swizzle = "none" })
        tc.copy_gmem_to_smem(a_scales, a_plain, loaded)
        tc.copy_gmem_to_smem(b_scales, b_plain, loaded)
        options.a_scale = tc.tmem({ 128, blocks }, o.scale, { layout = "scales" })
        options.b_scale = tc.tmem({ b_rows, blocks }, o.scale, { layout = "scales" })
        tc.barrier_wait(loaded)
        tc.async_copy_scales_to_tmem(a_plain, options.a_scale)
        tc.async_copy_scales_to_tmem(b_plain, options.b_scale)
      else
        tc.barrier_wait(loaded)
      end
      if o.a_tmem == "copy" then
        tc.async_copy_smem_to_tmem(a_smem, a_tmem)
      elseif o.a_tmem then
        tc.async_store_tmem(a_tmem, a_smem:load())
        tc.commit_tmem()
      end
      for part = 0, parts - 1 do
        local size, first = k // parts, part * (k // parts)
        local left = a_tmem and (parts == 1 and a_tmem or a_tmem:at(tc.all, tc.ds(first, size)))
          or along_k(a_smem, o.a_transposed, first, size)
        local right = along_k(b_smem, not o.b_transposed, first, size):T()
        local extra = { accumulate = part > 0 }
        if o.scale then
          local columns = tc.ds(part * (blocks // parts), blocks // parts)
          extra.a_scale = options.a_scale:at(tc.all, columns)
          extra.b_scale = options.b_scale:at(tc.all, columns)
        end
        tc.mma(acc, left, right, extra)
      end
      tc.commit_arrive(done)
      tc.barrier_wait(done)
      for c = 0, n - 1, 64 do
        local columns = tc.ds(c, math.min(64, n - c))
        out:at(tc.all, columns):store(tc.async_load_tmem(acc:at(tc.all, columns)))
      end
    end,
  }
end

-- A matmul of three roles, whose ring of stages has the scales as well.  o: a (dtype), scale, block, tk,
-- slots: of the scales in tensor memory, nil: one without an index.
local TM, TN, STAGES = 128, 128, 2
M.M, M.N, M.K = 128, 256, 1024

function M.pipelined(o)
  local m_all, n_all, k_all = M.M, M.N, M.K
  local groups = o.tk // o.block // 4
  return tc.kernel{
    name = "pipelined", grid = { m_all // TM, n_all // TN }, grid_names = { "m", "n" },
    args = { tc.gmem({ m_all, k_all }, o.a), tc.gmem({ n_all, k_all }, o.a),
             tc.gmem({ m_all // 128, k_all // o.block // 4, 32, 16 }, o.scale),
             tc.gmem({ n_all // 128, k_all // o.block // 4, 32, 16 }, o.scale), tc.gmem({ m_all, n_all }, tc.f32) },
    body = function(a, b, a_scales, b_scales, out)
      local m, n = tc.axis_index "m", tc.axis_index "n"
      local a_smem, b_smem = tc.smem({ STAGES, TM, o.tk }, o.a), tc.smem({ STAGES, TN, o.tk }, o.a)
      local a_plain = tc.smem({ STAGES, 1, groups, 32, 16 }, o.scale)
      local b_plain = tc.smem({ STAGES, 1, groups, 32, 16 }, o.scale)
      local acc = tc.tmem({ TM, TN }, tc.f32)
      local shape = { o.slots or 1, 128, 4 * groups }
      local a_scale = tc.tmem(shape, o.scale, { layout = "scales" })
      local b_scale = tc.tmem(shape, o.scale, { layout = "scales" })
      local loaded = tc.barrier{ num_arrivals = 4, num_barriers = STAGES }
      local consumed = tc.barrier{ num_barriers = STAGES, orders_tensor_core = true }
      local done = tc.barrier{ orders_tensor_core = true }
      tc.role{ name = "load", warps = 1 }(function()
        tc.range(k_all // o.tk, function(k)
          local s = k % STAGES
          tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[s]) end)
          tc.copy_gmem_to_smem(a:tile({ m, k }, { TM, o.tk }), a_smem[s], loaded[s])
          tc.copy_gmem_to_smem(b:tile({ n, k }, { TN, o.tk }), b_smem[s], loaded[s])
          tc.copy_gmem_to_smem(a_scales:tile({ m, k, 0, 0 }, { 1, groups, 32, 16 }), a_plain[s], loaded[s])
          tc.copy_gmem_to_smem(b_scales:tile({ n, k, 0, 0 }, { 1, groups, 32, 16 }), b_plain[s], loaded[s])
        end)
      end)
      tc.role{ name = "mma", warps = 1 }(function()
        tc.range(k_all // o.tk, function(k)
          local s, slot = k % STAGES, o.slots and k % o.slots or 0
          tc.barrier_wait(loaded[s])
          tc.async_copy_scales_to_tmem(a_plain[s], a_scale[slot])
          tc.async_copy_scales_to_tmem(b_plain[s], b_scale[slot])
          tc.mma(acc, a_smem[s], b_smem[s]:T(), { barrier = consumed[s], accumulate = k:gt(0),
                                                  a_scale = a_scale[slot], b_scale = b_scale[slot] })
        end)
        tc.commit_arrive(done)
      end)
      tc.role{ name = "store", warpgroups = 1 }(function()
        tc.barrier_wait(done)
        for c = 0, TN - 1, 64 do
          out:tile({ m, n * (TN // 64) + c // 64 }, { TM, 64 }):store(tc.async_load_tmem(acc:at(tc.all, tc.ds(c, 64))))
        end
      end)
    end,
  }
end

-- Numbers that the type holds, whose products and sums f32 holds: those of unsigned types are above 127.
function M.operand(shape, dtype, seed)
  if dtype == tc.u8 then return tc.randint(shape, dtype, { low = 120, high = 256, seed = seed }) end
  if dtype == tc.i8 then return tc.randint(shape, dtype, { low = -128, high = 128, seed = seed }) end
  return tc.randint(shape, dtype, { low = -3, high = 4, seed = seed })
end

-- Scales (rows, blocks) that differ along both dimensions; powers of two, or numbers of e4m3.
function M.scales(rows, blocks, dtype, seed)
  local codes = tc.randint({ rows, blocks }, tc.i32, { low = -2, high = 3, seed = seed }):totable()
  for _, row in ipairs(codes) do
    for j, e in ipairs(row) do
      row[j] = dtype == tc.e4m3 and ({ 0.5, 1.5, 1, 3, 2 })[e + 3] or 2.0 ^ e
    end
  end
  return tc.from_table(codes, dtype)
end

-- The operand times its scales, in double precision; K is its second dimension.
function M.scaled(operand, scale, block)
  local rows, factors = operand:totable(), scale:totable()
  for i, row in ipairs(rows) do
    for k, x in ipairs(row) do row[k] = x * factors[i][(k - 1) // block + 1] end
  end
  return tc.from_table(rows, tc.f64)
end

function M.emulate(kernel, mode, inputs, out)
  return kernel:emulate({ target = "sm_100a", mode = mode }, inputs[1], inputs[2], out, table.unpack(inputs, 3))
end

local no_assembler

function M.assembled() return no_assembler == nil, no_assembler end

-- Assembles for each target, runs in every mode without hazards, and compares with `expected`; the kernel is M.tile(o)
-- unless it is given.
function M.check(o, inputs, expected, kernel)
  local text = {}
  for key, value in pairs(o) do text[#text + 1] = key .. "=" .. tostring(value) end
  text = table.concat(text, " ")
  kernel = kernel or M.tile(o)
  for _, target in ipairs(o.targets or { "sm_100a", "sm_103a" }) do
    local cubin, message, code = kernel:cubin{ target = target }
    if not cubin and code == "ptx-rejected" then error(message) end
    no_assembler = no_assembler or not cubin and message or nil
  end
  for _, mode in ipairs(o.modes or { "fast", "check", "random" }) do
    local out = tc.zeros(expected.shape, o.d)
    local report = M.emulate(kernel, mode, inputs, out)
    if #report.hazards > 0 then error(text .. ": " .. report.hazards[1].message) end
    local error_found = tc.max_error(out, expected)
    if error_found ~= 0 then error(("%s, mode %s: off by %g"):format(text, mode, error_found)) end
  end
  return kernel
end

function M.dense(o)
  o.d = o.d or tc.f32
  local a = M.operand(o.a_transposed and { o.k, o.m } or { o.m, o.k }, o.a, 1)
  local b = M.operand(o.b_transposed and { o.n, o.k } or { o.k, o.n }, o.b, 2)
  return M.check(o, { a, b }, tc.reference.matmul(a, b, { transpose_a = o.a_transposed, transpose_b = o.b_transposed }))
end

-- Instruction descriptors of a kernel's text, in order, each once.
function M.descriptors(kernel, target)
  local list, seen = {}, {}
  for line in kernel:ptx{ target = target or "sm_100a" }:gmatch "tcgen05%.mma[^\n]*" do
    local code = line:match "(0x%x+)"
    if not seen[code] then list[#list + 1] = math.tointeger(tonumber(code)) end
    seen[code] = true
  end
  return list
end

return M
