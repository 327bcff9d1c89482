-- Traces of emulated runs: slices against arithmetic on the kernel's own numbers, and a text that a JSON
-- reader takes.
local tc = require "tcmma"
local helper = require "spec.helper"
local json = require "tcmma.json"

local M, N, K, TK, STAGES = 128, 128, 512, 64, 2

local function matmul()
  return tc.kernel {
    name = "traced",
    args = { tc.gmem({ M, K }, "f16"), tc.gmem({ K, N }, "f16"), tc.gmem({ M, N }, "f16") },
    grid = { 1 },
    body = function(a, b, out)
      local sa = tc.smem({ STAGES, M, TK }, "f16", { name = "a_tile" })
      local sb = tc.smem({ STAGES, TK, N }, "f16", { name = "b_tile" })
      local so = tc.smem({ M, N }, "f16", { name = "result" })
      local acc = tc.tmem({ M, N }, "f32")
      local loaded = tc.barrier { num_arrivals = 2, num_barriers = STAGES, name = "loaded" }
      local consumed = tc.barrier { num_barriers = STAGES, orders_tensor_core = true, name = "consumed" }
      local done = tc.barrier { orders_tensor_core = true, name = "done" }
      tc.role { name = 'the "loads"', warps = 1 }(function()
        tc.range(K // TK, function(k)
          local s = k % STAGES
          tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[s]) end)
          tc.copy_gmem_to_smem(a:tile({ 0, k }, { M, TK }), sa[s], loaded[s])
          tc.copy_gmem_to_smem(b:tile({ k, 0 }, { TK, N }), sb[s], loaded[s])
        end)
      end)
      tc.role { name = "mma", warps = 1 }(function()
        tc.range(K // TK, function(k)
          tc.barrier_wait(loaded[k % STAGES])
          tc.mma(acc, sa[k % STAGES], sb[k % STAGES], { barrier = consumed[k % STAGES], accumulate = k:gt(0) })
        end)
        tc.commit_arrive(done)
      end)
      tc.role { name = "store", warpgroups = 1 }(function()
        tc.barrier_wait(done)
        so:store(tc.async_load_tmem(acc):astype "f16")
        tc.commit_smem()
        tc.copy_smem_to_gmem(so, out)
        tc.wait_smem_to_gmem(0)
      end)
    end,
  }
end

local kernel = matmul()
local A, B = tc.randn({ M, K }, "f16", { seed = 1 }), tc.randn({ K, N }, "f16", { seed = 2 })
local OUT = tc.empty({ M, N }, "f16")

local function run(target, options)
  options = options or {}
  options.target, options.trace = target, true
  return kernel:emulate(options, A, B, OUT)
end

-- Slices by track name, in order of their starts.
local function tracks(text)
  local names, list = {}, {}
  local events = json.decode(text).traceEvents
  for _, e in ipairs(events) do
    if e.name == "thread_name" then
      names[e.tid] = e.args.name
      list[e.args.name] = list[e.args.name] or {}
    end
  end
  for _, e in ipairs(events) do
    if e.ph == "X" then table.insert(list[names[e.tid]], e) end
  end
  for _, track in pairs(list) do table.sort(track, function(x, y) return x.ts < y.ts end) end
  return list
end

local function total(track, kind)
  local sum, count = 0, 0
  for _, e in ipairs(track) do
    if e.cat == kind then sum, count = sum + e.dur, count + 1 end
  end
  return sum, count
end

describe("a trace", function()
  it("has a track for each role and engine, whose slices are as long as the work", function()
    -- FLOP a clock of dense f16 and MHz: 2250 TFLOP/s of 148 SMs, 989 TFLOP/s of 132
    for target, machine in pairs { sm_100a = { 8192, 1856 }, sm_90a = { 4096, 1755 } } do
      local report = run(target)
      assert.same({}, report.hazards)
      local t = tracks(report.trace_text)
      local us = 1 / machine[2]
      local sum, count = total(t["copies in"], "engine")
      assert.near((M + N) * K * 2 / 64 * us, sum, 1e-2)
      assert.equal(3 * K // TK, count) -- boxes of 64 columns: one of A, two of B
      sum = total(t["tensor core"], "engine")
      assert.near(2 * M * N * K / machine[1] * us, sum, 1e-2)
      sum = total(t["copies out"], "engine")
      assert.near(M * N * 2 / 64 * us, sum, 1e-2)
      assert.is_truthy(t['the "loads"'])
      -- an engine does one thing at a time
      for _, engine in ipairs { "copies in", "copies out", "tensor core" } do
        local free = 0
        for _, e in ipairs(t[engine]) do
          assert.is_true(e.ts >= free - 1e-3, engine)
          free = e.ts + e.dur
        end
      end
    end
  end)

  it("shows what was waited for, inside the line that waits", function()
    local t = tracks(run("sm_100a").trace_text)
    local names = {}
    for _, track in ipairs { 'the "loads"', "mma", "store" } do
      for _, e in ipairs(t[track]) do
        if e.cat == "wait" then
          names[track .. ": " .. e.name] = e
          local inside = false
          for _, line in ipairs(t[track]) do
            inside = inside or (line.cat == "line" and line.ts <= e.ts + 1e-3
              and e.ts + e.dur <= line.ts + line.dur + 1e-3)
          end
          assert.is_true(inside, track .. ": " .. e.name .. " at " .. e.ts)
        end
      end
    end
    for _, name in ipairs { 'the "loads": wait consumed[0]', "mma: wait loaded[1]", "store: wait done[0]" } do
      assert.is_truthy(names[name], name)
    end
    assert.equal(names["mma: wait loaded[1]"].cname, names["mma: wait loaded[0]"].cname)
    -- the MMAs wait for the first tile: its copy and the latency of memory
    local first
    for _, e in ipairs(t.mma) do first = first or e.name == "wait loaded[0]" and e or nil end
    assert.is_true(first.dur * 1856 > 800)
  end)

  it("has the loads of a line under way together", function()
    local k = tc.kernel { name = "loads", args = { tc.gmem({ 128, 128 }, "f32"), tc.gmem({ 128, 128 }, "f32") },
      body = function(x, y) tc.role { name = "all", warpgroups = 1 }(function() y:store(x:load() * 2) end) end }
    local x, y = tc.randn({ 128, 128 }, "f32"), tc.zeros({ 128, 128 }, "f32")
    local report = k:emulate({ target = "sm_90a", trace = true }, x, y)
    local longest = 0
    for _, e in ipairs(tracks(report.trace_text).all) do longest = math.max(longest, e.ts + e.dur) end
    -- 32 loads of 16 bytes by each thread: their 600 clocks once, not 32 times
    assert.is_true(longest * 1755 > 600 and longest * 1755 < 4 * 600 + 32 * 4 * 20, longest)
  end)

  it("names an MMA of a pair by the rows of both, of which each CTA takes half", function()
    local pair = require "spec.collective_kernels".matmul { rows = 128, n = 256, tk = 64, steps = 2 }
    local report = pair:emulate({ target = "sm_100a", trace = true }, tc.randn({ 256, 128 }, "f16"),
      tc.randn({ 128, 256 }, "f16"), tc.zeros({ 256, 256 }, "f32"))
    local count, time = {}, {}
    for _, e in ipairs(json.decode(report.trace_text).traceEvents) do
      if e.ph == "X" and e.name:match "^M%d" then
        assert.equal("M256 N256 K16", e.name)
        count[e.pid], time[e.pid] = (count[e.pid] or 0) + 1, (time[e.pid] or 0) + e.dur
      end
    end
    local expected = 2 * 128 * 256 * 128 / 8192 / 1856
    for _, cta in ipairs { 1, 2 } do
      assert.equal(128 // 16, count[cta])
      assert.near(expected, time[cta], 1e-2)
    end
  end)

  it("has no line of a role in the track of another one", function()
    local first
    local k = tc.kernel { args = { tc.gmem({ 256, 64 }, "f32"), tc.gmem({ 256, 64 }, "f32") }, grid = { 2 },
      grid_names = { "m" }, body = function(a, out)
        local m = tc.axis_index "m"
        local s, full = tc.smem({ 2, 64, 64 }, "f32"), tc.barrier { num_barriers = 2 }
        tc.role { name = "load", warps = 1 }(function()
          tc.range(2, function(i) tc.copy_gmem_to_smem(a:tile({ m * 2 + i, 0 }, { 64, 64 }), s[i], full[i]) end)
        end)
        first = debug.getinfo(1, "l").currentline + 1
        tc.role { name = "store", warpgroups = 1 }(function()
          tc.range(2, function(i)
            tc.barrier_wait(full[i])
            out:tile({ m * 2 + i, 0 }, { 64, 64 }):store(s[i]:load())
          end)
        end)
      end }
    for _, target in ipairs { "sm_100a", "sm_90a" } do
      local report = k:emulate({ target = target, trace = true }, tc.ones({ 256, 64 }, "f32"),
        tc.zeros({ 256, 64 }, "f32"))
      for name, track in pairs(tracks(report.trace_text)) do
        for _, e in ipairs(track) do
          local line = tonumber(e.name:match "^line (%d+)$")
          if line then assert.equal(name, line < first and "load" or "store", e.name) end
        end
      end
    end
  end)

  it("is the same each time, and in any number of threads", function()
    local first = run("sm_100a").trace_text
    assert.equal(first, run("sm_100a", { threads = 2 }).trace_text)
  end)

  it("is written to a file", function()
    local report = run("sm_90a", { mode = "random", seed = 7 })
    local path = os.tmpname()
    assert.equal(report, report:trace(path))
    local file = assert(io.open(path))
    assert.equal(report.trace_text, file:read "a")
    file:close()
    os.remove(path)
    assert.matches("cannot write '/no/such/folder/t.json': ",
      helper.message(function() report:trace "/no/such/folder/t.json" end))
  end)

  it("needs to be asked for", function()
    local report = kernel:emulate({ mode = "check" }, A, B, OUT)
    assert.is_nil(report.trace_text)
    assert.matches("this run kept no trace: emulate with the option trace = true",
      helper.message(function() report:trace "t.json" end))
    assert.matches([[option 'trace' needs the mode "check" or "random"]],
      helper.message(function() run("sm_100a", { mode = "fast" }) end))
    assert.matches("a path is expected, got no value", helper.message(function() report:trace() end))
  end)

  it("works for PTX that names no lines and roles", function()
    local module = tc.ptx [[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  bar.sync 0;
  st.global.u32 [%rd1], %r1;
  ret;
}
]]
    local out = tc.zeros({ 64 }, "u32")
    local report = module:kernel "k":emulate { block = { 64 }, args = { out }, trace = true }
    local t = tracks(report.trace_text)
    assert.is_truthy(t["warp 0"] and t["warp 1"])
    assert.matches("^PTX from line %d+$", t["warp 1"][1].name)
  end)
end)
