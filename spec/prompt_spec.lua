-- The module at Lua's prompt: a real session through a pseudo-terminal, and what prints.
local process = require "process"
local tc = require "tcmma"

local helper = require "helper"

-- Types the lines at the prompt of `lua5.4 -i -l tc=tcmma`; what each of them printed.
local function session(lines)
  local folder = process.folder()
  local input = assert(io.open(folder .. "/input", "w"))
  for i, line in ipairs(lines) do input:write(line, "\nprint('@' .. ", i, ")\n") end
  input:close()
  local command = ("env TERM=dumb INPUTRC=/dev/null TCMMA_DEVICE=emulator LUA_PATH='%s' LUA_CPATH='%s' "
    .. "script -qec 'stty -echo; lua5.4 -i -l tc=tcmma' /dev/null < %s/input 2>&1"):format(package.path, package.cpath,
    folder)
  local pipe = assert(io.popen(command))
  local output = pipe:read "a"
  local ok = pipe:close()
  process.remove(folder)
  output = output:gsub("\27%[[%d;?]*%a", ""):gsub("\r", "")
  local printed, at = {}, assert(output:find "\n> ", output) + 1
  for i, line in ipairs(lines) do
    local first, last = output:find(("@%d\n"):format(i), at, true)
    assert(first, ("line %d was not taken: %s\n%s"):format(i, line, output))
    printed[i] = output:sub(at, first - 1):gsub("^[> ]+", ""):gsub("[>%s]+$", "")
    at = last + 1
  end
  return printed, ok, output
end

describe("the prompt", function()
  local lines = {
    [[k, a, b, out = tc.record{ name = "mm", args = { tc.gmem({128, 64}, "f16"), tc.gmem({64, 128}, "f16"), ]]
      .. [[tc.gmem({128, 128}, "f32") } }]],
    [[k]],
    [[sa, sb = tc.smem({128, 64}, "f16"), tc.smem({64, 128}, "f16")]],
    [[acc = tc.tmem({128, 128}, "f32")]],
    [[loaded = tc.barrier{ num_arrival = 2 }]],
    [[loaded, done = tc.barrier{ num_arrivals = 2 }, tc.barrier{ orders_tensor_core = true }]],
    [[tc.copy_gmem_to_smem(a, sa, loaded)]],
    [[tc.copy_gmem_to_smem(a, sb, loaded)]],
    [[#k]],
    [[tc.copy_gmem_to_smem(b, sb, loaded)]],
    [[tc.barrier_wait(loaded)]],
    [[tc.mma(acc, sa, sa, { barrier = done, accumulate = false })]],
    [[#k]],
    [[tc.mma(acc, sa, sb, { barrier = done, accumulate = false })]],
    [[acc]],
    [[A, B, C = tc.randn({128, 64}, "f16"), tc.randn({64, 128}, "f16"), tc.zeros({128, 128}, "f32")]],
    [[seen = acc:peek{ args = { A, B } }]],
    [[tc.allclose(seen, tc.reference.matmul(A, B))]],
    [[k(A, B, C)]],
    [[tc.barrier_wait(done)]],
    [[out:store(tc.async_load_tmem(acc))]],
    [[k:finish()]],
    [[k(A, B, C)]],
    [[tc.allclose(C, seen)]],
    [[print((k:ops():gsub("\n.*", "")))]],
    [[#k:ptx() > 1000]],
    [[tc.help(tc.mma)]],
  }
  local printed, ok, output

  setup(function() printed, ok, output = session(lines) end)

  local function at(line)
    for i, text in ipairs(lines) do
      if text == line then return printed[i] end
    end
    error("not typed: " .. line)
  end

  it("starts with one line and ends well", function()
    assert.is_true(ok, output)
    assert.matches("^Lua 5%.4", output:match "Lua 5%.4.*")
  end)

  it("shows objects as one true line", function()
    assert.equal("kernel 'mm', 0 operations so far, recorded at the prompt", printed[2])
    assert.equal("TMEM ref, float32 (128, 128), allocated at the prompt", at "acc")
  end)

  it("takes a misspelt option, a wrong copy, a wrong product, and goes on", function()
    assert.matches("^stdin:1: bad argument #1 to 'barrier' %(unknown option 'num_arrival' "
      .. "%(did you mean 'num_arrivals'%?%)%)", printed[5])
    assert.matches("^stdin:1: .*shape", at "tc.copy_gmem_to_smem(a, sb, loaded)")
    assert.matches("^stdin:1: Accumulator and RHS have incompatible shapes%.",
      at "tc.mma(acc, sa, sa, { barrier = done, accumulate = false })")
    assert.equal("1", printed[9])
    assert.equal("3", printed[13])
  end)

  it("peeks at tensor memory in the middle of the recording", function()
    local shown = at "seen = acc:peek{ args = { A, B } }"
    assert.matches("^{{ *%-?%d", shown)
    assert.matches("%.%.%.", shown)
    assert.matches("^true%s+0 of 16384", at "tc.allclose(seen, tc.reference.matmul(A, B))")
  end)

  it("runs the kernel when it is finished, not before", function()
    assert.matches("^stdin:1: the recording of kernel 'mm' is still open: call its :finish%(%) first", printed[19])
    assert.matches("^kernel 'mm', 7 operations, recorded at the prompt", at "k:finish()")
    assert.matches("^true", at "tc.allclose(C, seen)")
    assert.equal('kernel "mm", grid (1), recorded at the prompt', at [[print((k:ops():gsub("\n.*", "")))]])
    assert.equal("true", at "#k:ptx() > 1000")
  end)

  it("has help", function()
    assert.matches("^tc%.mma%(", at "tc.help(tc.mma)")
  end)
end)

describe("the prompt in README", function()
  it("answers as it is written there", function()
    local file = assert(io.open "README.md")
    local block = file:read("a"):match "\n```\n%$ [^\n]*lua5%.4 %-i %-l tc=tcmma\n(.-)\n```"
    file:close()
    local typed, answers = {}, {}
    for line in block:gmatch "[^\n]+" do
      local code = line:match "^> (.*)$"
      if code then
        typed[#typed + 1], answers[#typed + 1] = code, {}
      else
        table.insert(answers[#typed], line)
      end
    end
    assert(#typed > 8, "the session is gone")
    local printed = session(typed)
    for i, lines in ipairs(answers) do
      local answer = printed[i]
      -- Lua 5.4 adds a traceback to an error.
      if answer:find "\nstack traceback:" then answer = answer:match "^(.-)\nstack traceback:" end
      if typed[i]:find "peek" then
        assert.matches("^{{1, 1, 1, %.%.%., 1, 1, 1},\n", answer)
      else
        assert.equal(table.concat(lines, "\n"), (answer:gsub("\n$", "")))
      end
    end
  end)
end)

describe("peek", function()
  local function open(fn)
    helper.recording({ name = "p", args = { tc.gmem({ 128, 64 }, "f16"), tc.gmem({ 64, 128 }, "f16"),
      tc.gmem({ 2, 128, 128 }, "f32") } }, fn)
  end

  it("leaves the recording as it is, and can be repeated", function()
    open(function(k, a)
      local sa, loaded = tc.smem({ 128, 64 }, "f16"), tc.barrier {}
      tc.copy_gmem_to_smem(a, sa, loaded)
      local before = k:ops()
      local first, second = sa:peek { quiet = true }, sa:peek { quiet = true }
      assert.is_true((tc.allclose(first, second)))
      assert.equal(before, k:ops())
    end)
  end)

  it("keeps the arrays and does not write to them", function()
    open(function(_, _, _, out)
      local c = tc.ones({ 2, 128, 128 }, "f32")
      out[1]:store(tc.full({ 128, 128 }, 3, "f32"))
      local seen = out:peek { args = { [3] = c }, quiet = true }
      assert.equal(1, seen:get(0, 5, 5))
      assert.equal(3, seen:get(1, 5, 5))
      assert.equal(1, c:get(1, 5, 5))
      assert.equal(1, out:peek { quiet = true }:get(0, 0, 0))
      assert.same({ 128, 128 }, out[0]:peek { quiet = true }.shape)
    end)
  end)

  -- Each swizzle, dtype width and slot: what a copy brought is what peek shows.
  for _, case in ipairs {
    { "f16", 128, { 128, 64 } }, { "f16", 64, { 128, 64 } }, { "f16", 32, { 64, 64 } }, { "f16", "none", { 64, 64 } },
    { "f32", 128, { 64, 64 } }, { "e4m3", 128, { 64, 128 } }, { "u8", 64, { 64, 128 } }, { "e2m1", 128, { 64, 256 } },
  } do
    it(("reads SMEM of %s with swizzle %s"):format(case[1], case[2]), function()
      local shape = case[3]
      local k, a = tc.record { args = { tc.gmem(shape, case[1]) } }
      local s, b = tc.smem({ 2, shape[1], shape[2] }, case[1], { swizzle = case[2] }), tc.barrier {}
      tc.copy_gmem_to_smem(a, s[1], b)
      local A = tc.randn(shape, case[1], { seed = 3, std = 4 })
      local seen = s[1]:peek { args = { A }, quiet = true }
      assert.same(shape, seen.shape)
      assert.equal(A:tobytes(), seen:tobytes())
      assert.equal(A:tobytes(), s:peek { quiet = true }:tobytes():sub(A.nbytes + 1))
      k:close()
    end)
  end

  it("reads packed TMEM and 64-row accumulators", function()
    open(function(_, a, b)
      local p, half = tc.tmem({ 128, 64 }, "f16", { packed = true }), tc.tmem({ 64, 128 }, "f32")
      local sa, sb, loaded, done = tc.smem({ 128, 64 }, "f16"), tc.smem({ 64, 128 }, "f16"),
        tc.barrier { num_arrivals = 2 }, tc.barrier { orders_tensor_core = true }
      tc.copy_gmem_to_smem(a, sa, loaded)
      tc.copy_gmem_to_smem(b, sb, loaded)
      tc.barrier_wait(loaded)
      tc.async_store_tmem(p, sa:load())
      tc.commit_tmem()
      tc.mma(half, sa:at(tc.ds(0, 64), tc.all), sb, { accumulate = false, barrier = done })
      local A, B = tc.randn({ 128, 64 }, "f16", { seed = 4 }), tc.randn({ 64, 128 }, "f16", { seed = 5 })
      assert.is_true((tc.allclose(p:peek { args = { A, B }, quiet = true }, A)))
      local product = tc.reference.matmul(A, B)
      local seen = half:peek { quiet = true }
      for _, at in ipairs { { 0, 0 }, { 15, 3 }, { 16, 127 }, { 40, 64 }, { 63, 1 } } do
        assert.near(product:get(at[1], at[2]), seen:get(at[1], at[2]), 1e-3)
      end
    end)
  end)

  it("looks at the block that is asked for", function()
    local k = tc.record { grid = { 3 }, grid_names = { "m" } }
    local s = tc.smem({ 4 }, "i32")
    s[0] = tc.axis_index "m"
    for block = 0, 2 do
      assert.equal(block, s[0]:peek { cta = { block }, quiet = true }:get())
    end
    assert.equal("option 'cta': there is no block 3 along x, the grid has 3",
      helper.first_line(helper.message(function() s:peek { cta = { 3 } } end)))
    k:close()
  end)

  it("says who waits when the recording cannot end", function()
    open(function(_, a)
      local sa, loaded = tc.smem({ 128, 64 }, "f16"), tc.barrier { num_arrivals = 2, name = "loaded" }
      tc.copy_gmem_to_smem(a, sa, loaded)
      tc.barrier_wait(loaded)
      local message = helper.message(function() sa:peek() end)
      assert.matches("deadlock", message)
      assert.matches("loaded", message)
      assert.matches("prompt_spec%.lua:%d+", message)
    end)
  end)

  it("refuses what it cannot show", function()
    open(function(k, a)
      local acc, s = tc.tmem({ 128, 128 }, "f32"), tc.smem({ 2, 128, 64 }, "f16")
      local function refused(fn) return helper.first_line(helper.message(fn)) end
      assert.equal("peek() at tensor memory on sm_90a, where it is registers of the role that reads it: "
        .. 'peek{target = "sm_100a"}', refused(function() acc:peek { target = "sm_90a" } end))
      assert.equal("bad argument #1 to 'peek' (unknown option 'arg' (did you mean 'args'?))",
        refused(function() acc:peek { arg = {} } end))
      local lost
      pcall(tc.range, 2, function()
        lost = tc.smem({ 256, 256 }, "f16")
        error "in the block"
      end)
      assert.matches("was allocated at line %d+ in a block that failed, and is gone",
        refused(function() lost:peek {} end))
      assert.equal("bad argument #1 to 'peek' (option 'args', entry 2: an array expected, got integer 5)",
        refused(function() acc:peek { args = { tc.zeros({ 128, 64 }, "f16"), 5 } } end))
      assert.equal("bad argument #1 to 'peek' (option 'args' has 4 entries; kernel 'p' has 3 arguments)",
        refused(function() acc:peek { args = { 1, 2, 3, 4 } } end))
      assert.matches("^Argument shape mismatch: expected %(128, 64%), got %(64, 64%)",
        refused(function() a:peek { args = { tc.zeros({ 64, 64 }, "f16") } } end))
      tc.range(2, function(i)
        assert.equal("peek() at a view whose index is recorded: its place is known only while the kernel runs; "
          .. "peek at the whole ref", refused(function() s[i]:peek() end))
        assert.equal("peek() inside a block: what is recorded so far can be run outside all blocks",
          refused(function() s:peek() end))
      end)
      k:close()
      assert.equal("this tcmma.ref belongs to a kernel that was closed", refused(function() s:peek() end))
    end)
  end)

  it("keeps the arrays that the kernel takes, and no others", function()
    local k, a = tc.record { args = { tc.gmem({ 4 }, "f32") } }
    local function peek(args) return a:peek { args = args, quiet = true } end
    assert.equal(1, peek { tc.ones({ 4 }, "f32") }:get(0))
    for _, refused in ipairs { { tc.ones({ 3 }, "f32") }, { tc.ones({ 4 }, "f16") }, { 5 }, { 1, 2 } } do
      assert.is_false((pcall(peek, refused)))
      assert.equal(1, peek():get(0))
    end
    assert.equal(2, peek { tc.from_table({ 2, 2, 2, 2 }, "f32") }:get(3))
    assert.equal(2, peek():get(3))
    k:close()
  end)

  it("needs arrays where sizes are named", function()
    local k, a = tc.record { args = { tc.gmem({ "M", 4 }, "f32") } }
    assert.equal("peek() does not know dimension 'M' of argument 1 of kernel 'kernel': give the arrays, "
      .. "peek{args = {...}}", helper.first_line(helper.message(function() a:peek() end)))
    assert.same({ 7, 4 }, a:peek { args = { tc.ones({ 7, 4 }, "f32") }, quiet = true }.shape)
    k:close()
  end)
end)

describe("every object", function()
  it("prints one true line, open, finished and closed", function()
    local k, a = tc.record { name = "x", args = { tc.gmem({ "M", 64 }, "f16") }, grid = { 2, 3 },
      grid_names = { "m", "n" }, cluster = { 2 }, cluster_names = { "c" } }
    local s, t = tc.smem({ 2, 128, 64 }, "f16"), tc.tmem({ 128, 64 }, "f32")
    local r, w = tc.role { name = "r", warps = 1 }, tc.role { name = "w", warpgroups = 1 }
    local m, b = tc.axis_index "m", tc.barrier { num_barriers = 3 }
    local objects = { k, a, s, s[0], s[m], t, r, w, tc.var(0), b, b[1], b[m],
      tc.cluster_barrier { collective_axes = "c" },
      tc.union(tc.smem({ 128, 64 }, "f16"), tc.smem({ 128, 64 }, "f32")), m, m + 1, m:lt(3), tc.ds(0, 4),
      tc.ds(m, 4), tc.all, tc.f16, tc.SMEM, tc.gmem({ 1, 2 }, "f32"), tc.device(), tc.zeros({ 2 }, "f32"), tc.config }
    w(function()
      local f = tc.async_load_tmem(t)
      table.move({ f, f:lt(0), tc.var(f) }, 1, 3, #objects + 1, objects)
    end)
    for _, stage in ipairs { "open", "finished", "closed" } do
      for i, object in ipairs(objects) do
        local text = tostring(object)
        assert(not text:find("\n", 1, true), text)
        assert(not text:find("0x%x+"), stage .. " object " .. i .. ": " .. text)
        assert(#text > 2 and #text < 240, text)
      end
      if stage == "open" then k:finish() else k:close() end
    end
    assert.equal("kernel (closed)", tostring(k))
  end)
end)

describe("a result at the prompt", function()
  it("that is a table shows its values", function()
    assert.equal("{1, 0}", tostring(select(2, tc.from_table({ { 1, 2 }, { 3, 2 } }, "f32", { 2, 2 }):max())))
    assert.equal("{" .. table.concat(tc.devices(), ", ") .. "}", tostring(tc.devices()))
    assert.matches("^{.*lua = Lua 5%.%d", tostring(tc.versions()))
    assert.matches("^{median = [%d.e-]+ us, min = .*, 2 calls, clock of the host}$",
      tostring(select(2, tc.bench(function() end, { repetitions = 2, device = "emulator" }))))
  end)

  it("of a variable that is misspelt is a warning, once", function()
    assert.equal("tcmma: warning: the environment variable TCMMA_EMULATOR_MOD is none of tcmma's "
      .. "(did you mean TCMMA_EMULATOR_MODE?)\n",
      process.run("require'tcmma'.device()", { TCMMA_EMULATOR_MOD = "check" }))
  end)

  it("of what is not recorded says what is", function()
    local function message(body)
      return select(2, pcall(tc.kernel, { args = {}, grid = { 2 }, grid_names = { "x" }, body = body }))
    end
    assert.matches("'^' is not recorded: write v * v",
      message(function() return tc.full({ 8, 8 }, 1, "f32") ^ 2 end), 1, true)
    assert.matches("'^' is not recorded: write v * v", message(function() return 2 ^ tc.axis_index "x" end), 1, true)
    assert.matches("tc.range takes (n, body) or (lo, hi, step, body): after lo and hi the step is missing",
      message(function() tc.range(0, 4, function() end) end), 1, true)
  end)
end)

describe("a function written in Lua that is called in a tail call", function()
  for name, call in pairs {
    matmul = function() return tc.matmul(tc.ones({ 64, 32 }, "f16"), tc.ones({ 64, 64 }, "f16")) end,
    choose = function() return tc.matmul.choose { M = 0 } end,
    ["npy.save"] = function() return tc.npy.save("unwritten", tc.zeros({ 8 }, "bf16")) end,
    ["safetensors.save"] = function() return tc.safetensors.save("unwritten", { 5 }) end,
    autotune = function() return tc.autotune({}, print, {}) end,
    bench = function() return tc.bench(5) end,
    nd_loop = function() return tc.nd_loop(5) end,
    block_spec = function() return tc.block_spec(5) end,
    emit_pipeline = function() return tc.emit_pipeline(print, { grid = { 0 } }) end,
    dynamic_scheduling_loop = function() return tc.dynamic_scheduling_loop("x", print) end,
  } do
    it("knows the line: " .. name, function()
      local ok, message = pcall(call)
      assert.is_false(ok)
      assert.equal(("spec/prompt_spec.lua:%d: "):format(debug.getinfo(call, "S").linedefined),
        message:match "^spec/prompt_spec%.lua:%d+: ")
      assert.not_matches("^spec/prompt_spec%.lua:%d+: .*prompt_spec", message)
    end)
  end

  it("knows the line at the prompt", function()
    assert.matches("^stdin:1: matmul: problem%.M must be an integer", session({ "tc.matmul.choose{ M = 0 }" })[1])
  end)

  it("passes arguments, results and errors on", function()
    local fn = tc.entry_point(function(...)
      if ... == "raise" then error({ "an object" }) end
      return select("#", ...), ...
    end)
    assert.same({ 3, nil, 2, nil, n = 4 }, table.pack(fn(nil, 2, nil)))
    assert.same({ 0, n = 1 }, table.pack(fn()))
    assert.same({ "an object" }, select(2, pcall(fn, "raise")))
    local co = coroutine.wrap(tc.entry_point(function(x) return coroutine.yield(x + 1) + 1 end))
    assert.equal(2, co(1))
    assert.equal(11, co(10))
    assert.matches("bad argument #1 to 'entry_point' %(function expected, got integer 5%)",
      helper.message(function() tc.entry_point(5) end))
  end)
end)
