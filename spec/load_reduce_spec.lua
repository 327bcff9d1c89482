-- tc.async_load_tmem with `reduce`: of each row the greatest or least element or magnitude.  Where the target has
-- tcgen05.ld.red the load finds it, elsewhere registers do; both against the host's.
local tc = require "tcmma"
local kernels = require "compiler_kernels"
local helper = require "helper"

local operations = { "max", "min", "absmax", "absmin" }

-- o: rows, n, dtype, op; warpgroups; apart: by :reduce of the loaded fragment; pair: 64 rows in each CTA of one.
local function load_reduce(o)
  local rows = o.rows or 128
  local shape, all = { rows, o.n }, o.pair and 2 * rows or rows
  return tc.kernel{
    name = "load_reduce", args = { tc.gmem({ all, o.n }, o.dtype), tc.gmem({ all, o.n }, o.dtype),
                                   tc.gmem({ all }, o.dtype) },
    cluster = o.pair and { 2 } or nil, cluster_names = o.pair and { "cta" } or nil,
    body = function(a, out, extremes)
      local cta = o.pair and tc.axis_index "cta" or 0
      local tmem = tc.tmem(shape, o.dtype, { collective = o.pair })
      tc.role{ name = "all", warpgroups = o.warpgroups or 1 }(function()
        tc.async_store_tmem(tmem, a:tile({ cta, 0 }, shape):load())
        tc.commit_tmem()
        local tile, extreme = tc.async_load_tmem(tmem, { reduce = not o.apart and o.op or nil })
        if o.apart then extreme = tile:reduce(o.op, 1) end
        out:tile({ cta, 0 }, shape):store(tile)
        extremes:tile({ cta }, { rows }):store(extreme)
      end)
    end,
  }
end

local function better(op, a, b)
  if op:find "^abs" then a, b = math.abs(a), math.abs(b) end
  if a ~= a then return b end
  if b ~= b then return a end
  return math[op:sub(-3)](a, b)
end

local function expected(a, op)
  local list = {}
  for i, row in ipairs(a:totable()) do
    list[i] = better(op, row[1], row[1])
    for j = 2, #row do list[i] = better(op, list[i], row[j]) end
  end
  return list
end

-- The ld.red of a kernel's text.
local function fused(kernel, target)
  local list = {}
  for form in kernel:ptx{ target = target }:gmatch "tcgen05%.ld%.red%.sync%.aligned%.(%S+)" do
    list[#list + 1] = form
  end
  return list
end

local function numbers(o, rows)
  if o.values then return o.values(rows) end
  if o.dtype == tc.f32 then return tc.randn({ rows, o.n }, tc.f32, { seed = 5 }) end
  return tc.randint({ rows, o.n }, o.dtype, { low = o.dtype == tc.u32 and 0 or -1000, high = 1000, seed = 5 })
end

-- Runs on every target and in every mode; on sm_103a the loads are those of `forms`, else there are none.
local function agrees(o, forms)
  local kernel, rows = load_reduce(o), (o.rows or 128) * (o.pair and 2 or 1)
  local a = numbers(o, rows)
  local want = expected(a, o.op)
  -- Hopper has no pairs, and registers of 8 columns.
  for _, target in ipairs((o.pair or o.n < 8) and { "sm_100a", "sm_103a" } or { "sm_90a", "sm_100a", "sm_103a" }) do
    assert.are.same(target == "sm_103a" and forms or {}, fused(kernel, target))
    local ok, message, code = kernels.assembles(kernel, target)
    if not ok and code ~= "no-library" then error(message) end
    for seed, mode in ipairs{ "fast", "check", "random" } do
      local out, extremes = tc.zeros({ rows, o.n }, o.dtype), tc.zeros({ rows }, o.dtype)
      local report = kernel:emulate({ target = target, mode = mode, seed = seed }, a, out, extremes)
      assert.are.same({}, report.hazards)
      if not o.values then assert.is_true(out:equal(a)) end
      assert.are.same(want, extremes:totable())
    end
  end
end

describe("tc.async_load_tmem, reduce", function()
  for _, op in ipairs(operations) do
    local name = op:find "^abs" and op:sub(-3) .. ".abs" or op
    it("finds " .. op .. " of every type", function()
      agrees({ dtype = tc.f32, n = 64, op = op }, { "32x32b.x64." .. name .. ".f32" })
      -- There is no .abs of integers.
      local integers = not op:find "^abs"
      agrees({ dtype = tc.i32, n = 32, op = op }, integers and { "32x32b.x32." .. op .. ".s32" } or {})
      agrees({ dtype = tc.u32, n = 32, op = op }, integers and { "32x32b.x32." .. op .. ".u32" } or {})
    end)
  end

  it("combines several loads, and the column that one of .x1 brings", function()
    agrees({ dtype = tc.f32, n = 96, op = "max" }, { "32x32b.x64.max.f32", "32x32b.x32.max.f32" })
    agrees({ dtype = tc.f32, n = 128, op = "absmin" }, { "32x32b.x64.min.abs.f32", "32x32b.x64.min.abs.f32" })
    agrees({ dtype = tc.f32, n = 3, op = "absmax" }, { "32x32b.x2.max.abs.f32" })
    agrees({ dtype = tc.i32, n = 1, op = "min" }, {})
  end)

  it("combines what several warpgroups load", function()
    agrees({ dtype = tc.f32, n = 128, op = "max", warpgroups = 2 }, { "32x32b.x64.max.f32" })
    agrees({ dtype = tc.i32, n = 192, op = "min", warpgroups = 3 }, { "32x32b.x64.min.s32" })
  end)

  it("combines the halves of 64 rows of a pair; 64 rows of one CTA are reduced in registers", function()
    agrees({ dtype = tc.f32, n = 64, rows = 64, op = "max", pair = true }, { "32x32b.x32.max.f32" })
    agrees({ dtype = tc.f32, n = 64, rows = 64, op = "absmax" }, {})
  end)

  it("does what :reduce of the fragment does, which is fused too", function()
    agrees({ dtype = tc.f32, n = 64, op = "max", apart = true }, { "32x32b.x64.max.f32" })
    agrees({ dtype = tc.u32, n = 64, op = "min", apart = true }, { "32x32b.x64.min.u32" })
    agrees({ dtype = tc.i32, n = 64, op = "absmax", apart = true }, {})
  end)

  it("does not count a NaN, and takes infinities", function()
    local function values(rows)
      local list = {}
      for i = 1, rows do
        local row = {}
        for j = 1, 32 do row[j] = (i * 7 + j * 5) % 19 - 9.5 end
        row[i % 32 + 1] = i % 3 == 0 and 0 / 0 or i % 3 == 1 and -math.huge or -0.0
        list[i] = row
      end
      return tc.from_table(list, tc.f32)
    end
    for _, op in ipairs(operations) do
      local name = op:find "^abs" and op:sub(-3) .. ".abs" or op
      agrees({ dtype = tc.f32, n = 32, op = op, values = values }, { "32x32b.x32." .. name .. ".f32" })
    end
  end)

  it("leaves sums, columns, converted fragments and reductions in other scopes to registers", function()
    local function body(fn)
      return tc.kernel{ name = "others", args = { tc.gmem({ 128 }, tc.f32), tc.gmem({ 64 }, tc.f32) },
        body = function(rows, columns)
          local tmem = tc.tmem({ 128, 64 }, tc.f32)
          tc.async_store_tmem(tmem, tc.iota({ 128, 64 }, 1, tc.f32))
          tc.commit_tmem()
          fn(tc.async_load_tmem(tmem), rows, columns)
        end }
    end
    local plain = {
      function(tile, rows) rows:store(tile:reduce("sum", 1)) end,
      function(tile, _, columns) columns:store(tile:reduce("max", 0)) end,
      function(tile, rows) rows:store((tile * 2.0):reduce("max", 1)) end,
      function(tile, rows) tc.range(1, function() rows:store(tile:reduce("max", 1)) end) end,
    }
    for _, fn in ipairs(plain) do assert.are.same({}, fused(body(fn), "sm_103a")) end
    -- Of two reductions the load makes one.
    local both = body(function(tile, rows) rows:store(tile:reduce("max", 1) - tile:reduce("min", 1)) end)
    assert.are.same({ "32x32b.x64.max.f32" }, fused(both, "sm_103a"))
    local rows = tc.zeros({ 128 }, tc.f32)
    both:emulate({ target = "sm_103a", mode = "check" }, rows, tc.zeros({ 64 }, tc.f32))
    assert.are.equal(63, rows:get(100))
  end)

  it("stands in the recording as what it is", function()
    helper.recording({ target = "sm_103a" }, function(k)
      tc.async_load_tmem(tc.tmem({ 128, 64 }, tc.f32), { reduce = "absmax" })
      assert.matches("async_load_tmem.-\n[^\n]*reduce absmax [^\n]*axis=1", k:ops())
    end)
  end)

  local refuses = helper.refuses
  refuses("another dtype",
    "Unsupported dtype for reduction: float16. Only float32,  int32 and uint32 are supported.", function()
      local t, wide = tc.tmem({ 128, 64 }, tc.f16, { packed = false }), tc.tmem({ 128, 64 }, tc.f32)
      return function() tc.async_load_tmem(t, { reduce = "max" }) end,
        function() tc.async_load_tmem(wide, { reduce = "max" }) end
    end)
  refuses("another operation", "Unsupported load reduce operation: sum", function()
    local t = tc.tmem({ 128, 64 }, tc.f32)
    return function() tc.async_load_tmem(t, { reduce = "sum" }) end,
      function() tc.async_load_tmem(t, { reduce = "absmin" }) end
  end)
end)
