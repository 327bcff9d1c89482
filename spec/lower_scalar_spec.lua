-- Recorded scalars and control flow: computed on the emulator, compared with Lua's own arithmetic.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

-- Runs body(out) in one role and returns the elements that it stored.
local function run(count, body, dtype)
  local kernel = tc.kernel{
    name = "scalars", args = { tc.gmem({ count }, dtype or tc.int32) }, grid = { 1 }, grid_names = { "x" },
    body = body,
  }
  local fine = kernels.assembles(kernel)
  assert.is_true(fine == nil or fine)
  local out = tc.zeros({ count }, dtype or tc.int32)
  kernels.run(kernel, nil, out)
  return out:totable()
end

local function wrap(x)
  x = x & 0xffffffff
  return x >= 0x80000000 and x - 0x100000000 or x
end

describe("division", function()
  for _, d in ipairs{ 1, 2, 3, 7, 8, 64, -1, -2, -3, -8 } do
    it(("floors as in Lua, by %d"):format(d), function()
      local got = run(80, function(out)
        tc.range(-20, 20, 1, function(x)
          out[x + 20]:store(x // d)
          out[x + 60]:store(x % d)
        end)
      end)
      for x = -20, 19 do
        assert.are.equal(x // d, got[x + 21], x .. " // " .. d)
        assert.are.equal(x % d, got[x + 61], x .. " % " .. d)
      end
    end)
  end

  it("takes recorded divisors", function()
    local got = run(2 * 11 * 11, function(out)
      tc.range(-5, 6, 1, function(x)
        tc.range(-5, 6, 1, function(y)
          tc.when(y:ne(0), function()
            out[(x + 5) * 11 + y + 5]:store(x // y)
            out[121 + (x + 5) * 11 + y + 5]:store(x % y)
          end)
        end)
      end)
    end)
    for x = -5, 5 do
      for y = -5, 5 do
        local at = (x + 5) * 11 + y + 5 + 1
        assert.are.equal(y ~= 0 and x // y or 0, got[at])
        assert.are.equal(y ~= 0 and x % y or 0, got[121 + at])
      end
    end
  end)
end)

describe("other arithmetic", function()
  it("wraps, shifts and compares as s32", function()
    local cases = {
      function(x) return x * 1000003 end, function(x) return x + 2147483647 end,
      function(x) return 5 - x end, function(x) return x & 6 end, function(x) return x | 9 end,
      function(x) return x ~ 5 end, function(x) return ~x end, function(x) return -x end,
      function(x) return x << 3 end,
    }
    local got = run(#cases * 16, function(out)
      tc.range(-8, 8, 1, function(x)
        for i, f in ipairs(cases) do out[x + (8 + 16 * (i - 1))]:store(f(x)) end
      end)
    end)
    for i, f in ipairs(cases) do
      for x = -8, 7 do assert.are.equal(wrap(f(x)), got[x + 9 + 16 * (i - 1)], "case " .. i .. ", x = " .. x) end
    end
  end)

  it("branches on every comparison", function()
    local names = { "lt", "le", "gt", "ge", "eq", "ne" }
    local truth = {
      lt = function(a, b) return a < b end, le = function(a, b) return a <= b end,
      gt = function(a, b) return a > b end, ge = function(a, b) return a >= b end,
      eq = function(a, b) return a == b end, ne = function(a, b) return a ~= b end,
    }
    local got = run(#names * 5, function(out)
      tc.range(5, function(x)
        for i, name in ipairs(names) do
          tc.when(x[name](x, 2), function() out[x + 5 * (i - 1)]:store(1) end,
            function() out[x + 5 * (i - 1)]:store(x + 10) end)
        end
      end)
    end)
    for i, name in ipairs(names) do
      for x = 0, 4 do assert.are.equal(truth[name](x, 2) and 1 or x + 10, got[x + 1 + 5 * (i - 1)]) end
    end
  end)
end)

describe("control flow", function()
  it("runs a loop no time when its bounds are empty", function()
    local got = run(4, function(out)
      out[0]:store(1)
      tc.range(out[0]:load() - 1, function(i) out[i + 1]:store(5) end)
      tc.range(3, 3, 1, function() out[1]:store(5) end)
      tc.range(3, 1, 1, function() out[2]:store(5) end)
    end)
    assert.are.same({ 1, 0, 0, 0 }, got)
  end)

  it("steps", function()
    local got = run(12, function(out)
      tc.range(1, 12, 3, function(i) out[i]:store(i) end)
    end)
    assert.are.same({ 0, 1, 0, 0, 4, 0, 0, 7, 0, 0, 10, 0 }, got)
  end)

  it("ends at bounds and with steps near the ends of s32", function()
    local most, least = 2^31 - 1 | 0, -2^31 | 0
    for _, case in ipairs{ { most - 7, most, 5, 2 }, { most - 10, most, 5, 2 }, { most - 1, most, 1, 1 },
      { least, most, most, 3 }, { least, least + 3, 2, 2 }, { most, least, 3, 0 }, { 0, most, 2^30 | 0, 2 } } do
      local lo, hi, step, turns = table.unpack(case)
      for recorded = 0, 7 do
        local got = run(4, function(out)
          local zero = out[3]:load()
          local function value(i, bit) return recorded & bit ~= 0 and zero + i or i end
          local n, last = tc.var(0), tc.var(0)
          tc.range(value(lo, 1), value(hi, 2), value(step, 4), function(i)
            n:set(n:get() + 1)
            last:set(i)
          end)
          out[0], out[1] = n:get(), last:get()
        end)
        assert.are.same({ turns, turns > 0 and lo + (turns - 1) * step or 0, 0, 0 }, got)
      end
    end
  end)

  it("does not run a loop whose recorded step is not positive", function()
    local got = run(3, function(out)
      for i = 0, 2 do tc.range(0, 10, out[2]:load() - i, function() out[i]:store(5) end) end
    end)
    assert.are.same({ 0, 0, 0 }, got)
  end)

  it("keeps variables over loops and stops loops", function()
    local got = run(3, function(out)
      local sum, n = tc.var(0), tc.var(0)
      tc.loop(function()
        n:set(n:get() + 1)
        tc.stop(n:get():gt(10))
        sum:set(sum:get() + n:get())
      end)
      out[0]:store(sum:get())
      out[1]:store(n:get())
    end)
    assert.are.same({ 55, 11, 0 }, got)
  end)

  it("does not use in one branch what the other computed", function()
    local got = run(8, function(out)
      tc.range(4, function(x)
        tc.when(x:lt(2), function() out[x]:store(x * 7 + 1) end,
          function() out[x]:store(x * 11 + 2) end)
        out[x + 4]:store(x * 11 + 2)
      end)
    end)
    assert.are.same({ 1, 8, 24, 35, 2, 13, 24, 35 }, got)
  end)
end)

-- As trees these would be of 8^30 and 2^300 nodes.
describe("values used more than once", function()
  local function xorshift(h)
    h = h ~ (h << 13)
    h = h ~ (h >> 17)
    return h ~ (h << 5)
  end

  it("are computed once each", function()
    local got = run(2, function(out)
      local h, x = out[0]:load() + 1, out[0]:load() + 3
      for _ = 1, 30 do h = xorshift(h) end
      for _ = 1, 300 do x = x * x end
      out[0], out[1] = h, x
    end)
    local h, x = 1, 3
    for _ = 1, 30 do
      h = wrap(h ~ (h << 13))
      h = h ~ (h >> 17)
      h = wrap(h ~ (h << 5))
    end
    for _ = 1, 300 do x = wrap(x * x) end
    assert.are.same({ h, x }, got)
  end)

  it("are one node to every question of the compiler", function()
    local kernel = tc.kernel{
      name = "shared", args = { tc.gmem({ 64, 64 }, tc.float16), tc.gmem({ 8 }, tc.int32) }, target = "sm_100a",
      body = function(x, out)
        local tile = tc.smem({ 2, 64, 64 }, tc.float16)
        local full, empty = tc.barrier{ num_barriers = 2 }, tc.barrier{ num_barriers = 2 }
        local function slot(i)
          for _ = 1, 100 do i = i * i + i end
          return i % 2
        end
        local load, use = tc.role{ name = "load", warps = 1 }, tc.role{ name = "use", warps = 1 }
        load(function()
          tc.range(4, function(i)
            tc.when(i:ge(2), function() tc.barrier_wait(empty[slot(i)]) end)
            tc.copy_gmem_to_smem(x, tile[slot(i)], full[slot(i)])
          end)
        end)
        use(function()
          tc.range(4, function(i)
            tc.barrier_wait(full[slot(i)])
            tc.when((slot(i) + 1):gt(0), function() out[i] = slot(i) end)
            tc.print("slot {}", slot(i))
            tc.barrier_arrive(empty[slot(i)])
          end)
        end)
      end,
    }
    assert.is_string(kernel:ptx())
    assert.matches("%.%.%.", kernel:ops())
  end)
end)

describe("tc.cdiv", function()
  it("rounds up without overflow", function()
    local most, least = 2^31 - 1 | 0, -2^31 | 0
    local dividends = { 0, 1, 2, 127, 128, 129, 1324206210, most - 1, most, -1, -127, -128, -129, least, least + 1 }
    local divisors = { 1, 2, 3, 128, 1324206210, most }
    local got = run(2 * #dividends * #divisors, function(out)
      local zero, at = out[2 * #dividends * #divisors - 1]:load(), 0
      for _, a in ipairs(dividends) do
        for _, b in ipairs(divisors) do
          out[2 * at], out[2 * at + 1] = tc.cdiv(zero + a, b), tc.cdiv(zero + a, zero + b)
          at = at + 1
        end
      end
    end)
    local at = 0
    for _, a in ipairs(dividends) do
      for _, b in ipairs(divisors) do
        local expected = -(-a // b)
        assert.are.same({ expected, expected }, { got[2 * at + 1], got[2 * at + 2] }, a .. " / " .. b)
        at = at + 1
      end
    end
  end)
end)

describe("the grid", function()
  local function axes(grid)
    local names, total = {}, 1
    for i = 1, #grid do
      names[i] = "g" .. i
      total = total * grid[i]
    end
    local kernel = tc.kernel{
      name = "axes", args = { tc.gmem({ total, #grid }, tc.int32) }, grid = grid, grid_names = names,
      body = function(out)
        local at = 0
        for i = 1, #grid do at = at * grid[i] + tc.axis_index(names[i]) end
        for i = 1, #grid do out[at][i - 1]:store(tc.axis_index(names[i])) end
      end,
    }
    local out = tc.zeros({ total, #grid }, tc.int32):fill(-1)
    kernels.run(kernel, nil, out)
    local got = out:totable()
    for t = 0, total - 1 do
      local rest = t
      for i = #grid, 1, -1 do
        assert.are.equal(rest % grid[i], got[t + 1][i])
        rest = rest // grid[i]
      end
    end
  end

  it("has its last axis fastest", function()
    axes{ 5 }
    axes{ 2, 3 }
    axes{ 2, 3, 4 }
  end)

  it("is folded beyond three axes", function()
    axes{ 2, 3, 1, 4 }
    axes{ 2, 2, 3, 2, 2 }
  end)
end)

describe("functions of f32 scalars", function()
  local functions = {
    exp2 = { function(x) return 2.0 ^ x end, -22 }, exp = { math.exp, -20 },
    log2 = { function(x) return math.log(x, 2) end, -21 }, log = { math.log, -21 },
    rsqrt = { function(x) return 1 / math.sqrt(x) end, -22 }, sqrt = { math.sqrt, -23 },
    tanh = { function(x) return 1 - 2 / (math.exp(2 * x) + 1) end, -10 },
  }
  for name, how in pairs(functions) do
    it("compute " .. name, function()
      local got = run(12, function(out)
        tc.range(12, function(i)
          out[i]:store(tc[name](i:astype(tc.float32) * 0.75 + 0.5))
        end)
      end, tc.float32)
      for i = 0, 11 do
        local y = how[1](i * 0.75 + 0.5)
        assert.is_true(math.abs(got[i + 1] - y) <= 2.0 ^ how[2] * math.max(math.abs(y), name:match "log" and 1 or 0),
          ("%s(%g) is %.9g, expected %.9g"):format(name, i * 0.75 + 0.5, got[i + 1], y))
      end
    end)
  end

  it("take plain numbers, and refuse recorded integers", function()
    for name, x in pairs{ exp = math.exp(2), exp2 = 4.0, log = math.log(2), log2 = 1.0, sqrt = math.sqrt(2),
        rsqrt = 1 / math.sqrt(2), tanh = 1 - 2 / (math.exp(4) + 1) } do
      assert.near(x, tc[name](2), 1e-15, name)
    end

    local function refused(f)
      return select(2, pcall(tc.kernel, { args = {}, grid = { 2 }, grid_names = { "x" }, body = f }))
    end
    assert.matches("tc.exp needs an f32, got an s32 (x): convert with :astype(tc.float32)",
      refused(function() tc.exp(tc.axis_index "x") end), 1, true)
    assert.matches("fragment expected, got", refused(function() tc.sqrt("2 m") end), 1, true)
  end)
end)
