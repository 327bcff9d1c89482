-- Runs a scenario again and again, and lets every allocation in turn fail, once or for good: an
-- error may come of it, no crash, and no block of memory that nobody gives back.
-- Usage: lua5.4 fail_everywhere.lua SCENARIO STRIDE, with fail_malloc preloaded.
local tc = require "tcmma"
local fail_malloc = require "fail_malloc"

local scenarios = {}

local ptx = [[.version 8.0
.target sm_90a
.address_size 64
.visible .entry store(.param .u64 p) {
	.reg .b64 %rd<3>;
	.reg .b32 %r<2>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.u64 %rd2, %rd1, %rd2;
	st.global.u32 [%rd2], %r1;
	ret;
}
]]

local function record(a, b, out)
  local sa, sb = tc.smem({ 2, 128, 64 }, "f16"), tc.smem({ 64, 64 }, "f16", { name = "b" })
  local acc = tc.tmem({ 128, 64 }, "f32")
  local loaded, done = tc.barrier { num_arrivals = 2 }, tc.barrier { orders_tensor_core = true }
  tc.range(2, function(i)
    tc.copy_gmem_to_smem(a, sa[i], loaded)
    tc.copy_gmem_to_smem(b:tile({ 0, 0 }, { 64, 64 }), sb, loaded)
    tc.barrier_wait(loaded)
    tc.mma(acc, sa[i], sb, { barrier = done, accumulate = i:gt(0) })
    tc.barrier_wait(done)
  end)
  tc.when(tc.axis_index(0):lt(1), function() tc.print("block {}", tc.axis_index(0)) end)
  pcall(tc.mma, acc, sb, sb)
  out:store(tc.async_load_tmem(acc):astype "f16")
  return acc
end

local spec = { args = { tc.gmem({ 128, 64 }, "f16"), tc.gmem({ "K", 64 }, "f16"), tc.gmem({ 128, 64 }, "f16") } }

function scenarios.record()
  local k, a, b, out = tc.record { name = "k", args = spec.args, grid = { 1 } }
  local ok, message = pcall(record, a, b, out)
  if ok then
    k:ops()
    k:finish()
    k:ptx { target = "sm_100a" }
  end
  k:close()
  if not ok then error(message, 0) end
end

function scenarios.kernel()
  tc.kernel { name = "k", args = spec.args, body = record }:close()
end

local A, B, C = tc.randn({ 128, 64 }, "f16"), tc.randn({ 64, 64 }, "f16"), tc.zeros({ 128, 64 }, "f16")
io.stdout:setvbuf "no"

function scenarios.run()
  local k, a, b, out = tc.record { name = "k", args = spec.args, target = "sm_100a" }
  local ok, message = pcall(function()
    local acc = record(a, b, out)
    acc:peek { args = { A, B, C }, quiet = true }
    k:finish()
    k(A, B, C)
    tostring(k:emulate({ mode = "check" }, A, B, C))
  end)
  k:close()
  if not ok then error(message, 0) end
end

function scenarios.module()
  local m = tc.ptx(ptx)
  local array = tc.zeros({ 32 }, "i32", { device = "emulator:sm_90a" })
  m:kernel("store"):launch { block = { 32 }, args = { array }, device = "emulator:sm_90a" }
  array:totable()
  array:free()
end

function scenarios.arrays()
  local a = tc.randn({ 33, 7 }, "bf16", { seed = 1 })
  local b = a:astype("f32"):reshape({ 7, 33 }):copy()
  tc.allclose(a, a)
  tc.reference.matmul(b, tc.ones({ 33, 2 }, "f32"))
  b:tostring_values()
  tostring(b)
  tc.from_table(b:totable(), "f16")
  tc.frombytes(a:tobytes(), "bf16", { 33, 7 })
  b:free()
end

function scenarios.load()
  package.loaded["tcmma.core"], package.loaded["tcmma.help"] = nil, nil
  require "tcmma.core"
  tc.documentation()
end

local function settle()
  collectgarbage()
  collectgarbage()
end

-- What one attempt leaves behind: blocks that are allocated afterwards.
local function attempt(scenario, n, lasting)
  fail_malloc.arm(n, lasting)
  local ok, message = pcall(scenario)
  fail_malloc.disarm()
  settle()
  local _, live = fail_malloc.disarm()
  if not ok then
    message = tostring(message)
    assert(message:find "memory" or message:find "not found" or message:find "was stopped", message)
    assert(not message:find "%.c:%d", message)
  end
  return live
end

local name, stride = arg[1], tonumber(arg[2] or 1)
local scenario = assert(scenarios[name], name)
-- The emulator remembers the addresses that were released last: fill that memory first.
for _, target in ipairs { "sm_100a", "sm_90a" } do
  for _ = 1, 1100 do tc.empty({ 1 }, "u8", { device = "emulator:" .. target }):free() end
end
for _ = 1, 3 do scenario() end
settle()
fail_malloc.arm(0)
scenario()
local count = fail_malloc.disarm()
local tried = 0
for _, lasting in ipairs { false, true } do
  local n = 1
  while n <= count do
    -- What is kept for good is there after a while; what is lost is lost each time.
    local before, after = attempt(scenario, n, lasting), attempt(scenario, n, lasting)
    for _ = 1, 6 do
      if after <= before then break end
      before, after = after, attempt(scenario, n, lasting)
    end
    if after > before then
      error(("allocation %d of %d, %s: %d blocks are lost each time"):format(n, count,
        lasting and "and all after it" or "alone", after - before), 0)
    end
    tried = tried + 1
    n = n + (n < 50 and 1 or stride)
  end
end
print(("%s: %d allocations, %d failures: no crash, no leak"):format(name, count, tried))
