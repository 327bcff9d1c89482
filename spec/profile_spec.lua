-- profile = true: what the leaders of roles write into the launch's buffer, and the trace made of it.
local tc = require "tcmma"
local helper = require "spec.helper"
local json = require "tcmma.json"

local PART, EVENTS, CTAS = 8 * 2 + 4 * 2 + 8 + 8 * 4096, 4096, 64 -- as src/program.h says

-- Adds one to rows of 64 numbers; two roles that take turns by barriers.
local function adding(options)
  return tc.kernel {
    name = "adding", profile = options.profile, grid = { options.ctas or 2 }, grid_names = { "i" },
    args = { tc.gmem({ 128, 64 }, "f32"), tc.gmem({ 128, 64 }, "f32") },
    body = function(a, out)
      local i = tc.axis_index "i" % 2
      local full, empty = tc.barrier { name = "full" }, tc.barrier { name = "empty" }
      local s = tc.smem({ 64, 64 }, "f32", { swizzle = "none" })
      tc.role { name = "first", warpgroups = 1 }(function()
        tc.range(options.turns or 3, function(turn)
          tc.when(turn:gt(0), function() tc.barrier_wait(empty) end)
          s:store(a:tile({ i, 0 }, { 64, 64 }):load() + 1)
          tc.barrier_arrive(full)
        end)
      end)
      tc.role { name = "second", warpgroups = 1 }(function()
        tc.range(options.turns or 3, function()
          tc.barrier_wait(full)
          out:tile({ i, 0 }, { 64, 64 }):store(s:load())
          tc.barrier_arrive(empty)
        end)
      end)
    end,
  }
end

-- Runs the emitted text with a buffer, and returns the parts that it wrote.
local function buffer_of(options, target)
  local kernel = adding(options)
  local a, out = tc.randn({ 128, 64 }, "f32", { seed = 1 }), tc.zeros({ 128, 64 }, "f32")
  local buffer = tc.zeros({ CTAS * 2 * PART // 4 }, "u32")
  local module = tc.ptx(kernel:ptx { target = target })
  local name = module:kernels()[1].name
  local report = module:kernel(name):emulate { grid = { options.ctas or 2 }, block = { 256 },
    args = { a, out, buffer }, smem = 1 << 16, mode = "check", target = target }
  assert.same({}, report.hazards)
  assert.is_true((tc.allclose(out, a:totable() and tc.from_table((function()
    local rows = a:totable()
    for _, row in ipairs(rows) do for j, x in ipairs(row) do row[j] = x + 1 end end
    return rows
  end)(), "f32"))))
  local bytes, parts = buffer:tobytes(), {}
  for part = 0, CTAS * 2 - 1 do
    local at = part * PART + 1
    local begins, ends, clock0, clock1, events = ("<I8I8I4I4I4"):unpack(bytes, at)
    local list = {}
    for i = 0, math.min(events, EVENTS) - 1 do
      local op, clock = ("<I4I4"):unpack(bytes, at + 32 + 8 * i)
      list[i + 1] = { op = op, clock = clock }
    end
    parts[part + 1] = { begins = begins, ends = ends, clock0 = clock0, clock1 = clock1, events = events, list = list }
  end
  return parts
end

describe("profile", function()
  for _, target in ipairs { "sm_90a", "sm_100a" } do
    it("writes an event before each op, and one after a wait, on " .. target, function()
      local parts = buffer_of({ profile = true }, target)
      for part = 1, 4 do
        local p = parts[part]
        -- first: load, arithmetic, store, arrive each turn, and two waits with their ends; second: all each turn
        assert.equal(part % 2 == 1 and 3 * 4 + 2 * 2 or 3 * 5, p.events)
        assert.is_true(p.ends >= p.begins and p.begins > 0)
        local before = p.clock0
        for _, event in ipairs(p.list) do
          assert.is_true((event.clock - before) & 0xffffffff < 1 << 31)
          before = event.clock
        end
        assert.is_true((p.clock1 - before) & 0xffffffff < 1 << 31)
      end
      assert.equal(0, parts[5].events)
    end)
  end

  it("keeps what there is room for, in the first CTAs", function()
    local parts = buffer_of({ profile = true, turns = 1000, ctas = 65 }, "sm_90a")
    assert.equal(1000 * 5, parts[2].events)
    assert.equal(EVENTS, #parts[2].list)
    assert.equal(1000 * 5, parts[CTAS * 2].events)
  end)

  it("is asked for when the kernel is built", function()
    local kernel = adding {}
    local a, out = tc.randn({ 128, 64 }, "f32"), tc.zeros({ 128, 64 }, "f32")
    assert.not_matches("globaltimer", kernel:ptx { target = "sm_90a" })
    assert.matches("kernel 'adding' keeps no times: build it with profile = true",
      helper.message(function() kernel:profile({}, a, out) end))
  end)

  it("changes no result, and is an emulated trace where there is no GPU", function()
    local kernel = adding { profile = true }
    local a, out = tc.randn({ 128, 64 }, "f32", { device = "emulator" }), tc.zeros({ 128, 64 }, "f32",
      { device = "emulator" })
    kernel(a, out)
    local plain = out:tobytes()
    local report = kernel:profile(nil, a, out)
    assert.equal(plain, out:tobytes())
    local names = {}
    for _, e in ipairs(json.decode(report.trace_text).traceEvents) do names[e.name] = true end
    assert.is_true(names["wait full[0]"])
  end)

  it("is assembled for every target", function()
    for _, target in ipairs { "sm_90a", "sm_100a", "sm_103a" } do
      local cubin, message, code = adding({ profile = true }):cubin { target = target }
      if not cubin and code == "no-library" then return pending(message) end
      assert.is_truthy(cubin, message)
    end
  end)
end)
