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
    rsqrt = { function(x) return 1 / math.sqrt(x) end, -22 }, sqrt = { math.sqrt, -24 },
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

  it("refuse integers and plain numbers", function()
    local function refused(f)
      return select(2, pcall(tc.kernel, { args = {}, grid = { 2 }, grid_names = { "x" }, body = f }))
    end
    assert.matches("tc.exp needs an f32, got an s32 (x): convert with :astype(tc.float32)",
      refused(function() tc.exp(tc.axis_index "x") end), 1, true)
    assert.matches("fragment expected, got", refused(function() tc.sqrt(2) end), 1, true)
  end)
end)
