-- Kernels that are long: in text, and in time.
local tc = require "tcmma"
local process = require "process"

local function lines(...) return table.concat({ ... }, "\n") end

describe("a long text", function()
  -- Each block of control flow with registers of its own: 40 000 of them.
  it("is loaded in time and memory that grow with its length", function()
    local body = {}
    for i = 1, 40000 do
      body[i] = lines(("mov.b32 %%r%d, %d;"):format(i, i * 64), ("@!%%p0 bra L%d;"):format(i),
        ("st.global.b32 [%%rd0], %%r%d;"):format(i), ("L%d:"):format(i))
    end
    local text = lines(".version 8.0", ".target sm_90a", ".address_size 64", ".visible .entry k(.param .u64 out) {",
      ".reg .pred %p<1>; .reg .b32 %r<40001>; .reg .b64 %rd<1>;", "ld.param.u64 %rd0, [out];",
      "setp.eq.u64 %p0, %rd0, %rd0;", table.concat(body, "\n"), "ret;", "}")
    local out = tc.zeros({ 1 }, "i32", { device = "emulator:sm_90a" })
    local start = os.clock()
    tc.ptx(text):kernel("k"):launch { grid = { 1 }, block = { 32 }, args = { out } }
    assert.equal(40000 * 64, out:get(0))
    assert(os.clock() - start < 20, "it took too long: something grows with the square of the length")
  end)
end)

describe("a loop that takes long", function()
  local code = [[
    local tc = require "tcmma"
    tc.use "emulator"
    local k = tc.kernel { name = "spins", args = { tc.gmem({ 1 }, "i32") }, body = function(o)
      local v = tc.var(0)
      tc.range(2000000000, function(i) v:set(v:get() * 3 + i) end)
      o[0] = v:get()
    end }
    print(k:emulate({ max_instructions = %d }, tc.zeros({ 1 }, "i32")).hazards[1].message)]]

  it("ends with the budget, whose error says how to raise it", function()
    local output = process.run(code:format(100000))
    assert.matches("its limit", output)
    assert.matches("max_instructions", output)
  end)

  it("shows on a terminal how far it is", function()
    local environment = { TCMMA_EMULATOR_PROGRESS = "1" }
    local command = process.command(code:format(150000000), environment)
    local pipe = io.popen("script -qec '" .. command:gsub("'", "'\\''") .. "' /dev/null 2>&1")
    local output = pipe:read "a"
    pipe:close()
    if output:find("not found", 1, true) then pending "no command 'script' for a terminal" end
    -- `command` has the streams joined: the terminal is both.
    assert.matches("emulating kernel 'spins': [%d.]+ M warp%-instructions, block 1 of 1\r", output)
    assert.matches("\27%[K[^\r]*its limit", output)
  end)

  it("is silent where standard error is none", function()
    local output = process.run(code:format(150000000), { TCMMA_EMULATOR_PROGRESS = "1" })
    assert.is_nil(output:find("emulating kernel", 1, true))
  end)
end)

describe("a tensor map", function()
  local function emulate(operation, map, mode)
    local names = {}
    for i = 1, map.rank do names[i] = i == map.rank and "%r3" or "%r4" end
    return tc.ptx(lines(".version 8.6", ".target sm_90a", ".address_size 64",
      ".extern .shared .align 1024 .b8 tile[];", ".visible .entry k(.param .align 64 .b8 map[128]) {",
      ".reg .b64 %rd<2>; .reg .b32 %r<8>;", "mov.u32 %r1, tile; add.u32 %r2, %r1, 1024;",
      "mov.b64 %rd0, map; cvta.param.u64 %rd0, %rd0;", "mov.b32 %r3, -1; mov.b32 %r4, 0;",
      "mbarrier.init.shared::cta.b64 [%r2], 1;",
      operation:format(map.rank, "[%rd0, {" .. table.concat(names, ",") .. "}]"), "ret;", "}")):kernel "k":emulate {
      block = { 1 }, smem = 1032, args = { map.map }, mode = mode }
  end

  local function map(rank, box)
    local shape = { 8 }
    for _ = 2, rank do table.insert(shape, 1, 2) end
    tc.device "emulator:sm_90a":use()
    return { rank = rank, map = tc.tensormap(tc.zeros(shape, "f32"), { box = box }) }
  end

  local load = "cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%%r1], %s, [%%r2];"

  for _, mode in ipairs { "fast", "check" } do
    for _, box in ipairs { { 256, 256, 256, 256, 256 }, { 256, 256, 256, 64, 1 }, { 256, 256, 1, 1, 1 } } do
      local box_text = table.concat(box, "x")
      it(("of a box of %s, beyond shared memory, is refused in mode %s"):format(box_text, mode), function()
        local report = emulate(load, map(5, box), mode)
        assert.equal("out-of-bounds", report.hazards[1].rule)
        assert.matches("write of %d+ bytes of shared memory", report.hazards[1].message)
      end)
    end

    it("may be prefetched from before its tensor in mode " .. mode, function()
      assert.is_true(emulate("cp.async.bulk.prefetch.tensor.%dd.L2.global.tile %s;", map(2, { 8, 2 }), mode).completed)
    end)
  end
end)
