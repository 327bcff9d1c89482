-- Leaves objects of every kind alive: an open recording, a compiled kernel, arrays, a loaded module.
local tc = require "tcmma"
tc.use "emulator:sm_100a"

local kept = {}
rawset(_G, "kept", kept)
local function keep(...) kept[#kept + 1] = { ... } end

local k = tc.kernel { name = "double", args = { tc.gmem({ 128, 64 }, "f32") }, body = function(a)
  a:store(a:load() * 2)
end }
local a = tc.ones({ 128, 64 }, "f32")
k(a)
assert(a:get(5, 5) == 2)
keep(k, a, a:reshape { 64, 128 }, k:emulate({}, a))
keep(tc.device():stream(), tc.device():event())
keep(tc.ptx ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry f(.param .u64 p) { ret; }\n":kernel "f")
kept[#kept][1]:launch { args = { tc.zeros({ 1 }, "f32", { device = "emulator:sm_90a" }) }, device = "emulator:sm_90a" }
local open, b = tc.record { name = "open", args = { tc.gmem({ 4 }, "f32") } }
keep(open, b, b[0], tc.smem({ 8, 64 }, "f16"), tc.var(0), tc.barrier {}, tc.axis_index(0) + 1)
keep(tc.full({ 128, 64 }, 0, "f32"))
