-- The driver's interface, with a libcuda that is built here from cuda.h and has no GPU behind it.
local tc = require "tcmma"
local process = require "spec.process"

local folder

-- Builds the library; nil where cuda.h or a C compiler is missing.
local function build()
  for _, home in ipairs{ os.getenv("TCMMA_CUDA_HOME") or "", os.getenv("CUDA_HOME") or "", "/usr/local/cuda" } do
    local header = home ~= "" and io.open(home .. "/include/cuda.h")
    if header then
      header:close()
      local where = process.folder()
      local command = ("cc -shared -fPIC -o %s/libcuda.so.1 -I%s/include spec/driver/fake_cuda.c 2>/dev/null")
        :format(where, home)
      if os.execute(command) then return where end
      process.remove(where)
    end
  end
end

folder = build()
local with_driver = folder and it or pending
local with_assembler = folder and tc.versions().nvjitlink and it or pending

local PTX = [[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry probe(.param .u64 out, .param .u32 value) { ret; }
.visible .entry maps(.param .u64 out, .param .align 64 .b8 map[128]) { ret; }
.visible .entry wild() { ret; }
.visible .entry trap() { ret; }
.visible .entry harmless() { ret; }
.visible .entry slow() { ret; }
.visible .entry endless() { ret; }
.visible .entry asserts() { ret; }
]]

local function run(code, environment)
  local all = { LD_LIBRARY_PATH = folder, TCMMA_DEVICE = false }
  for name, value in pairs(environment or {}) do all[name] = value end
  return (process.run("local tc = require 'tcmma' local m = tc.ptx(" .. ("%q"):format(PTX) .. ")\n" .. code, all))
end

describe("a GPU, by the driver's interface", function()
  teardown(function() if folder then process.remove(folder) end end)

  with_driver("is the default device where one has a target", function()
    assert.equal("cuda:0\tsm_90a\tcuda:0 emulator:sm_90a emulator:sm_100a emulator:sm_103a\n", run[[
      local d = tc.device()
      print(d.name, d.target, table.concat(tc.devices(), " "))]])
  end)

  with_assembler("tells once what the assembler warns of, unless TCMMA_WARNINGS is off", function()
    local code = [[
      package.path = "./spec/?.lua;" .. package.path
      local k = require("wgmma_kernels").matmul{ piece = 32, finish = function(x) return 1 / (x * x + 3) end }
      local text = k:ptx{ target = "sm_90a" }:gsub("div%.full", "div.rn")
      local f = tc.ptx(text .. ".visible .entry harmless() { ret; }"):kernel("harmless")
      f:launch{} f:launch{}]]
    assert.equal("tcmma: warning: kernel 'harmless': (C7509) Potential Performance Loss: wgmma.mma_async instructions "
      .. "are serialized due to the presence of Extern calls in the function 'matmul'\n", run(code))
    assert.equal("", run(code, { TCMMA_WARNINGS = "0" }))
  end)

  with_driver("gives arrays that are not written", function()
    assert.equal("cuda:0\n", run[[print(tc.empty({ 4, 4 }, "f32", { device = "cuda:0" }).device.name)]])
  end)

  with_driver("says what it is", function()
    assert.equal("Fake GPU 40 132 1024 1980000 67108864 67108864 232448 13.0\n", run[[
      local p = tc.device().properties
      print(("%s %d %d %d %d %d %d %s"):format(p.description, p.sm_count, p.max_threads, p.clock_khz, p.memory,
        p.memory_free, p.smem_limit, tc.versions().driver))]])
  end)

  with_driver("one without a target, or that is not there, is nil, a message and a code", function()
    local output = run[[print(tc.device("cuda:1")) print(tc.device("cuda:2"))]]
    assert.matches("nil\tcuda:1 (Fake GPU 41) has compute capability 7.5, for which there is no target", output,
      1, true)
    assert.matches("nil\tthere is no cuda:2: the driver sees 2 GPUs\tno-device", output, 1, true)
  end)

  with_assembler("gets grid, block, cluster, memory, arguments and stream as they were given", function()
    assert.equal("8 3 2 32 2 1 1024 4 1 -5 1 1024 0 1 0\n", run[[
      local out = tc.zeros({ 15 }, "i32")
      m:kernel("probe"):launch{ grid = { 8, 3, 2 }, block = { 32, 2 }, cluster = { 4 }, smem = 1024,
        args = { out, 2 ^ 32 - 5 }, stream = tc.device():stream() }
      print(table.concat(out:totable(), " "))]])
  end)

  -- 198 clocks of 1.98 GHz are 0.1 us; the timer, which moved by one step, is not asked for the clock's speed.
  with_assembler("a profile's times become slices", function()
    assert.equal("16 slices, from 0 to 2.5000, 0.1000 each; report of 'timed' on cuda:0: completed, 0 hazards\n", run[[
      local k = tc.kernel{ name = "timed", profile = true, grid = { 2 }, args = {}, body = function()
        local b = tc.barrier{}
        tc.role{ warps = 1 }(function() tc.barrier_arrive(b) end)
        tc.role{ warps = 1 }(function() tc.barrier_wait(b) tc.range(2, function() end) end)
      end }
      local report = k:profile()
      local count, first, last, length = 0, 1e9, 0
      for ts, dur in report.trace_text:gmatch '"ph":"X","pid":%d+,"tid":%d+,"ts":([%d.]+),"dur":([%d.]+)' do
        ts = tonumber(ts)
        count, first, last, length = count + 1, math.min(first, ts), math.max(last, ts + dur), dur
      end
      print(("%d slices, from %g to %.4f, %s each; %s"):format(count, first, last, length, report))]])
  end)

  with_assembler("no cluster is no attribute, and more than 8 blocks are asked for", function()
    assert.equal("0\t0\t0\n16\t1\t1\n", run[[
      local out = tc.zeros({ 15 }, "i32")
      for _, cluster in ipairs{ false, { 16 } } do
        m:kernel("probe"):launch{ grid = { 16 }, cluster = cluster or nil, args = { out, 0 } }
        local v = out:totable()
        print(v[8], v[9], v[13])
      end]])
  end)

  with_assembler("is told which launches may start early", function()
    assert.equal("1 0\n1 4\n0 0\n", (run[[
      local out = tc.zeros({ 15 }, "i32")
      for _, o in ipairs{ { early = true }, { early = true, cluster = { 4 } }, {} } do
        m:kernel("probe"):launch{ grid = { 8 }, cluster = o.cluster, args = { out, 0 },
          programmatic_stream_serialization = o.early }
        local v = out:totable()
        print(v[15], v[8])
      end]]:gsub("\t", " ")))
  end)

  with_assembler("encodes a tensor map once", function()
    assert.equal("true\t6 2 128 64 256 64 32 1 0 3 2 1 1\ntrue\t1\ntrue\t2\n", run[[
      local a, out = tc.zeros({ 64, 128 }, "f16"), tc.zeros({ 16 }, "i64")
      local options = { box = { 64, 32 }, swizzle = "128B", l2 = "128B", oob = "nan" }
      local function probe(map)
        m:kernel("maps"):launch{ args = { out, map } }
        return out:totable()
      end
      local v = probe(tc.tensormap(a, options))
      print(v[1] == a.address, table.concat(v, " ", 2, 14))
      v = probe(tc.tensormap(a, options))
      print(v[1] == a.address, v[14])
      options.box = { 64, 16 }
      v = probe(tc.tensormap(a, options))
      print(v[1] == a.address, v[14])]])
  end)

  with_assembler("an error that comes late names the kernels that may have caused it", function()
    local output = run[[
      local a = tc.zeros({ 4 }, "i32")
      m:kernel("harmless"):launch{}
      m:kernel("wild"):launch{}
      print(pcall(a.totable, a))
      print(pcall(a.totable, a))
      print(pcall(tc.zeros, { 4 }, "i32"))]]
    assert.matches("false\t[^\n]*kernel 'wild', 'harmless' %(one of them, latest first%) failed on cuda:0: an illegal "
      .. "memory access was encountered %(CUDA_ERROR_ILLEGAL_ADDRESS, 700%)", output)
    assert.matches("start the process again", output, 1, true)
    assert.matches("cuda:0 is lost since an earlier failure", output, 1, true)
  end)

  with_assembler("TCMMA_LAUNCH_BLOCKING finds it at its launch", function()
    local output = run([[
      m:kernel("harmless"):launch{}
      print(pcall(function() m:kernel("trap"):launch{} end))]], { TCMMA_LAUNCH_BLOCKING = "1" })
    assert.matches("kernel 'trap' failed on cuda:0: some error %(CUDA_ERROR_LAUNCH_FAILED, 719%)", output)
  end)

  with_assembler("a launch that the driver refuses says with what", function()
    local output = run[[
      local out = tc.zeros({ 15 }, "i32")
      print(pcall(function() m:kernel("probe"):launch{ grid = { 7 }, cluster = { 7 }, args = { out, 0 } } end))
      print(pcall(function() m:kernel("probe"):launch{ smem = 210000, args = { out, 0 } } end))]]
    assert.matches("cannot launch 'probe' on cuda:0", output, 1, true)
    assert.matches("cluster (7, 1, 1), 0 bytes of dynamic shared memory, 33 registers a thread", output, 1, true)
    assert.matches("no cluster of this size fits", output, 1, true)
    assert.matches("asks for 210000 bytes of dynamic and 48 bytes of static shared memory", output, 1, true)
  end)

  with_driver("out of memory collects garbage and tries again, then tells how much is free", function()
    local output = run[[
      collectgarbage("stop")
      local keep = tc.zeros({ 8 << 20 }, "u8")
      for i = 1, 40 do tc.zeros({ 16 << 20 }, "u8") end
      print("survived")
      print(pcall(tc.zeros, { 60 << 20 }, "u8"))]]
    assert.matches("^survived\n", output)
    assert.matches("out of memory: 60.0 MiB asked, 56.0 MiB of 64.0 MiB free", output, 1, true)
  end)

  with_driver("without nvJitLink the driver assembles, and its log is the error", function()
    local empty = process.folder()
    local output = run([[
      local out = tc.zeros({ 15 }, "i32")
      m:kernel("probe"):launch{ args = { out, 77 } }
      print(out:totable()[10], out:totable()[14])
      local bad = tc.ptx(".version 8.0\n.target sm_90a\n.address_size 64\n.entry bad() { frobnicate; }")
      print(pcall(function() bad:kernel():launch{} end))]], { TCMMA_CUDA_HOME = empty })
    process.remove(empty)
    assert.matches("^77\t0\n", output)
    assert.matches("the driver refuses the PTX of 'bad'", output, 1, true)
    assert.matches("line 7: no instruction frobnicate", output, 1, true)
  end)

  -- A program that counts what the driver was given to load: cubins and texts.
  local function loads(text)
    return ("local text = %q\n"):format(text) .. [[
      local out = tc.zeros({ 2 }, "i32")
      tc.ptx(text):kernel("loads"):launch{ block = { 128 }, args = { out } }
      print(table.concat(out:totable(), " "))]]
  end
  local SETMAXNREG = [[
.version 8.0
.target sm_90a
.address_size 64
.visible .entry loads(.param .u64 out)
.maxntid 128
{
  setmaxnreg.dec.sync.aligned.u32 40;
  ret;
}
]]

  with_assembler("a text that sets its registers is assembled by the driver, others by nvJitLink", function()
    assert.equal("0 1\n", run(loads(SETMAXNREG)))
    assert.equal("1 0\n", run(loads((SETMAXNREG:gsub("setmaxnreg[^\n]*", "")))))
  end)

  with_assembler("so is one whose extern shared array would lie elsewhere, and by nothing else", function()
    local tail = SETMAXNREG:gsub("setmaxnreg[^\n]*",
      "mov.u32 %%r0, tail; st.shared.u8 [fixed], %%r0; ld.shared.u8 %%r0, [tail];")
      :gsub("{\n", "{\n  .reg .b32 %%r<1>;\n  .shared .b8 fixed[20];\n")
      :gsub("%.visible", ".extern .shared .align 128 .b8 tail[];\n%0")
    assert.equal("0 1\n", run(loads(tail)))
    assert.equal("1 0\n", run(loads((tail:gsub("align 128", "align 16")))))
    assert.equal("0 0\n", run(loads(tail .. "// newer than the driver\n"))) -- nothing is loaded
  end)

  with_assembler("a text that is too new for the driver goes through nvJitLink", function()
    assert.equal("1 0\n", run(loads(SETMAXNREG .. "// newer than the driver\n"), { TCMMA_WARNINGS = "0" }))
  end)

  with_assembler("no launch starts ptxas", function()
    local where = process.folder()
    local file = assert(io.open(where .. "/ptxas", "w"))
    file:write("#!/bin/sh\necho started >> " .. where .. "/log\nexit 1\n")
    file:close()
    os.execute("chmod +x " .. where .. "/ptxas")
    local environment = { PATH = where .. ":" .. os.getenv("PATH"), CUDA_HOME = false, CUDA_PATH = false,
      TCMMA_CUDA_HOME = false, TCMMA_CACHE = "0" }
    assert.equal("0 1\n", run(loads(SETMAXNREG), environment))
    assert.is_nil(io.open(where .. "/log"))
    -- The same program is found where a cubin is asked for; it fails, and nvJitLink answers.
    local output = run(("local k = tc.ptx(%q):kernel('loads') print(k:info().assembler)"):format(SETMAXNREG),
      environment)
    assert.matches("^nvJitLink", output)
    assert.is_truthy(io.open(where .. "/log"))
    process.remove(where)
  end)

  with_driver("events measure", function()
    assert.equal("2.5\n", run[[
      local d = tc.device()
      local a, b = d:event():record(), d:event():record(d:stream())
      print(b:since(a))]])
  end)

  with_driver("a kernel for the emulator only says so", function()
    local output = run[[
      local k = tc.kernel{ name = "k", target = "sm_100a", args = { tc.gmem({ 8 }, "f32") }, body = function() end }
      print(pcall(k, tc.zeros({ 8 }, "f32")))]]
    assert.matches("kernel 'k' is for sm_100a, but cuda:0 runs sm_90a. With TCMMA_DEVICE=emulator:sm_100a", output,
      1, true)
  end)

  describe("that does not finish", function()
    local RUNNING = "kernel 'endless' has been running for %d s on cuda:0; k:emulate({mode = \"check\"}, ...) "
      .. "tells who waits for what"

    with_assembler("is waited for as long as it takes", function()
      assert.equal("true\ttrue\n", run[[
        local a = tc.zeros({ 4 }, "i32")
        local function seconds() local f = io.open "/proc/uptime" local s = f:read "n" f:close() return s end
        local start = seconds()
        m:kernel("slow"):launch{}
        print(a:equal(tc.zeros({ 4 }, "i32")), seconds() - start > 0.25)]])
    end)

    with_assembler("is told of, then given up", function()
      local started = os.time()
      local output = run([[
        local a = tc.zeros({ 4 }, "i32")
        m:kernel("endless"):launch{}
        print(pcall(function() tc.device():synchronize() end))
        print(pcall(a.totable, a))]], { TCMMA_GPU_PROGRESS = "1", TCMMA_GPU_TIMEOUT = "3" })
      assert.matches("^" .. RUNNING:format(1):gsub("[%(%)%.%-]", "%%%0") .. "\n"
        .. RUNNING:format(2):gsub("[%(%)%.%-]", "%%%0") .. "\nfalse\t", output)
      assert.matches(RUNNING:format(3) .. "\nThat is the limit of TCMMA_GPU_TIMEOUT", output, 1, true)
      assert.matches("cuda:0 is lost since an earlier failure (" .. RUNNING:format(3), output, 1, true)
      assert.is_true(os.time() - started < 8)
    end)

    -- Everything that waits, and what happens to what is alive then.
    for what, wait in pairs{
      ["a stream"] = "s:synchronize()",
      ["an event"] = "local e = d:event():record(s) e:since(d:event():record())",
      ["the device with a stream"] = "d:synchronize()",
      ["a copy to the GPU"] = "tc.from_table({ 1 }, 'i32')",
      ["a copy back"] = "a:totable()",
      ["the load of another module"] = "tc.ptx(m:ptx() .. '//'):kernel('harmless'):launch{}",
      ["room for a launch"] = "local k = m:kernel 'harmless' for i = 1, 2000 do k:launch{ stream = s } end",
    } do
      with_assembler("gives up waiting for " .. what, function()
        local output = run([[
          local d, a = tc.device(), tc.zeros({ 4 }, "i32")
          local s = d:stream()
          m:kernel("endless"):launch{ stream = s } ]] .. wait, { TCMMA_GPU_TIMEOUT = "1" })
        assert.matches("'endless'[^\n]* has been running for 1 s on cuda:0[^\n]*\nThat is the limit", output)
      end)
    end

    with_assembler("does not stop finalizers, nor the end of the process for more than the limit", function()
      local output = run([[
        local a, b = tc.zeros({ 4 }, "i32"), tc.zeros({ 4 }, "i32")
        m:kernel("endless"):launch{}
        a:free()
        b = nil
        collectgarbage()
        print "here"]], { TCMMA_GPU_TIMEOUT = "1" })
      assert.matches("^here\n" .. RUNNING:format(1):gsub("[%(%)%.%-]", "%%%0"), output)
    end)

    with_assembler("gives back what is no more used when it is done", function()
      assert.equal("true\tfalse\ttrue\n", run[[
        local d = tc.device()
        local free = d.properties.memory_free
        local a = tc.zeros({ 1024 }, "i32")
        m:kernel("slow"):launch{}
        a:free()
        local kept = d.properties.memory_free
        d:synchronize()
        print(kept < free, d.properties.memory_free == kept, d.properties.memory_free == free)]])
    end)

    with_assembler("is left by Ctrl-C, and the process ends", function()
      local output = run[[
        m:kernel("endless"):launch{}
        local pid = io.open "/proc/self/stat":read "n"
        os.execute("(sleep 0.5; kill -INT " .. pid .. ") &")
        print(pcall(function() tc.device():synchronize() end))]]
      assert.matches("interrupted while waiting for kernel 'endless' on cuda:0, which still runs", output, 1, true)
    end)
  end)

  with_assembler("the text of a failed tc.assert is in the error", function()
    local output = run[[
      m:kernel("asserts"):launch{}
      print(pcall(function() tc.device():synchronize() end))]]
    assert.matches("kernel 'asserts' failed on cuda:0: tc.assert: x.lua:7: too large\n", output, 1, true)
  end)

  with_driver("an event that was not recorded cannot measure", function()
    local output = run[[
      local d = tc.device()
      local a, b = d:event():record(), d:event()
      print(pcall(b.since, b, a))
      print(pcall(a.since, a, b))]]
    assert.matches("bad argument #1 [^\n]*the event was not recorded: call earlier:record%(%)", output)
    assert.matches("the event was not recorded.*the event was not recorded", output)
  end)
end)
