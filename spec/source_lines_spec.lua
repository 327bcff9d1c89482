-- Lines of CUDA C in reports of the emulator: against the places of statements in the source text, and what
-- the toolkit's assembler takes of .file, .loc and .section.
local tc = require "tcmma"
local process = require "process"
local json = require "tcmma.json"

local directory = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "witness/"
local target = "sm_90a"
local with_nvrtc = tc.versions().nvrtc and it or pending
local with_assembler = tc.versions().nvjitlink and it or pending

-- The line of the text that has `part`, which must be one.
local function line_of(text, part)
  local found, number = nil, 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    number = number + 1
    if line:find(part, 1, true) then
      assert(not found, part .. " stands in two lines")
      found = number
    end
  end
  return (assert(found, part .. " stands nowhere"))
end

local function contains(text, part)
  assert(text:find(part, 1, true), ("%q is not in:\n%s"):format(part, text))
end

local function zeros(n) return tc.zeros({ n }, "i32", { device = "emulator:" .. target }) end

local function compile(source, opts)
  opts = opts or {}
  opts.target = target
  return assert(tc.cuda(source, opts))
end

local function emulate(f, threads, args, opts)
  opts = opts or {}
  opts.block, opts.args, opts.mode = { threads }, args, opts.mode or "check"
  return f:emulate(opts)
end

local function hazard_of(report, rule)
  for _, h in ipairs(report.hazards) do
    if h.rule == rule then return h end
  end
  error("no " .. rule .. " in " .. report:text())
end

describe("a fault of CUDA C", function()
  local source = [[
    // the array has 64
    extern "C" __global__ void k(int *p) {
      int i = threadIdx.x + 10;
      p[i] = 7;
    }
  ]]

  with_nvrtc("has the line of the source and its text", function()
    local report = emulate(compile(source):kernel(), 64, { zeros(64) })
    local h = hazard_of(report, "out-of-bounds")
    local line = line_of(source, "p[i] = 7;")
    assert.same({ "kernel.cu", line, "p[i] = 7;" }, { h.file, h.line, h.text })
    assert.same({}, { h.inlined_at, h.lua_file, h.lua_line })
    contains(report:text(), ("kernel.cu:%d\n    p[i] = 7;"):format(line))
  end)

  with_nvrtc("is an error with the line and its text", function()
    local f = compile(source, { name = "rows/seven.cu" }):kernel()
    local ok, message = pcall(f.launch, f, { block = { 64 }, args = { zeros(64) } })
    assert.is_false(ok)
    contains(message, ("source rows/seven.cu:%d\n      p[i] = 7;"):format(line_of(source, "p[i] = 7;")))
  end)

  with_nvrtc("follows #line", function()
    local report = emulate(compile('#line 100 "other.cu"\n' .. source):kernel(), 64, { zeros(64) })
    local h = hazard_of(report, "out-of-bounds")
    assert.same({ "other.cu", 99 + line_of(source, "p[i] = 7;") }, { h.file, h.line })
    assert.is_nil(h.text)
  end)

  with_nvrtc("has only PTX lines with lineinfo = false", function()
    local module = compile(source, { lineinfo = false })
    assert.is_nil(module:ptx():find(".loc", 1, true))
    local report = emulate(module:kernel(), 64, { zeros(64) })
    local h = hazard_of(report, "out-of-bounds")
    assert.same({}, { h.file, h.line, h.text })
    assert.is_number(h.ptx_line)
  end)

  with_nvrtc("has its line with full debug information too", function()
    local report = emulate(compile(source, { options = { "-G" } }):kernel(), 64, { zeros(64) })
    assert.equal(line_of(source, "p[i] = 7;"), hazard_of(report, "out-of-bounds").line)
  end)

  with_nvrtc("in functions that were inlined has every call", function()
    local text = [[
      __device__ __forceinline__ void put(int *p, int i) {
        p[i] = 1;
      }
      __device__ __forceinline__ void both(int *p, int i) {
        put(p, i);
        put(p, i + 64);
      }
      extern "C" __global__ void k(int *p) {
        both(p, threadIdx.x);
      }
    ]]
    local report = emulate(compile(text):kernel(), 64, { zeros(64) })
    local h = hazard_of(report, "out-of-bounds")
    local second, call = line_of(text, "put(p, i + 64);"), line_of(text, "both(p, threadIdx.x);")
    assert.same({ "kernel.cu", line_of(text, "p[i] = 1;"), "p[i] = 1;" }, { h.file, h.line, h.text })
    assert.same({ { file = "kernel.cu", line = second }, { file = "kernel.cu", line = call } }, h.inlined_at)
    contains(report:text(), (", inlined at kernel.cu:%d, inlined at kernel.cu:%d\n"):format(second, call))
  end)

  with_nvrtc("in a header has the text of the call", function()
    local text = [[
      #include <cuda/std/utility>
      extern "C" __global__ void k(int *p) {
        cuda::std::exchange(p[threadIdx.x + 60], 7);
      }
    ]]
    local h = hazard_of(emulate(compile(text):kernel(), 64, { zeros(64) }), "out-of-bounds")
    assert.matches("cuda/std/.*exchange%.h$", h.file)
    local last = h.inlined_at[#h.inlined_at]
    assert.same({ "kernel.cu", line_of(text, "exchange(") }, { last.file, last.line })
    assert.equal("cuda::std::exchange(p[threadIdx.x + 60], 7);", h.text)
  end)

  with_nvrtc("in a function that is called has that function's line", function()
    local text = [[
      __device__ __noinline__ void put(int *p, int i) {
        p[i] = i;
      }
      extern "C" __global__ void k(int *p) { put(p, threadIdx.x + 1); }
    ]]
    local h = hazard_of(emulate(compile(text):kernel(), 64, { zeros(64) }), "out-of-bounds")
    assert.same({ line_of(text, "p[i] = i;") }, { h.line, h.inlined_at })
  end)
end)

describe("a race of CUDA C", function()
  local source = [[
    extern "C" __global__ void k(int *p) {
      __shared__ int s[64];
      s[threadIdx.x] = threadIdx.x;
      __syncwarp();
      p[threadIdx.x] = s[63 - threadIdx.x];
    }
  ]]

  with_nvrtc("has the lines of both sides", function()
    local report = emulate(compile(source):kernel(), 64, { zeros(64) })
    local write, read = line_of(source, "s[threadIdx.x] ="), line_of(source, "s[63 -")
    local h = hazard_of(report, "shared-race")
    assert.same({ [write] = true, [read] = true }, { [h.line] = true, [h.other_line] = true })
    assert.same({ "kernel.cu", "kernel.cu" }, { h.file, h.other_file })
    assert.equal(h.line == write and "s[threadIdx.x] = threadIdx.x;" or "p[threadIdx.x] = s[63 - threadIdx.x];", h.text)
    assert.equal(h.line == read and "s[threadIdx.x] = threadIdx.x;" or "p[threadIdx.x] = s[63 - threadIdx.x];",
      h.other_text)
    contains(h.message, ("(kernel.cu:%d)"):format(write))
    contains(h.message, ("(kernel.cu:%d)"):format(read))
    contains(report:text(), ("the earlier one: kernel.cu:%d\n    %s"):format(h.other_line, h.other_text))
  end)

  with_nvrtc("is one hazard for each pair of lines, however often the loop is unrolled", function()
    local text = [[
      extern "C" __global__ void k(int *p) {
        __shared__ int s[512];
        #pragma unroll
        for (int i = 0; i < 8; i++)
          s[64 * i + threadIdx.x] = i;
        int sum = 0;
        #pragma unroll
        for (int i = 0; i < 8; i++)
          sum += s[64 * i + 63 - threadIdx.x];
        p[threadIdx.x] = sum;
      }
    ]]
    local report = emulate(compile(text):kernel(), 64, { zeros(64) })
    local pairs_seen = {}
    for _, h in ipairs(report.hazards) do
      local pair = ("%s %d %s"):format(h.rule, h.line, h.other_line)
      assert.is_nil(pairs_seen[pair])
      pairs_seen[pair] = true
    end
    assert.is_true(hazard_of(report, "shared-race").count > 1)
  end)
end)

describe("a deadlock of CUDA C", function()
  with_nvrtc("has the line of everyone who waits", function()
    local source = [[
      extern "C" __global__ void k(int *p) {
        if (threadIdx.x < 32)
          asm volatile("barrier.sync 1, 64;");
        else
          asm volatile("barrier.sync 2, 64;");
        p[threadIdx.x] = 1;
      }
    ]]
    local report = emulate(compile(source):kernel(), 64, { zeros(64) })
    local one, two = line_of(source, "barrier.sync 1"), line_of(source, "barrier.sync 2")
    local h = hazard_of(report, "deadlock")
    contains(h.message, ("(kernel.cu:%d)"):format(one))
    contains(h.message, ("(kernel.cu:%d)"):format(two))
    assert(h.line == one or h.line == two)
  end)

  with_nvrtc("has the line where the mbarrier was made and those of its events", function()
    local source = [[
      #define WAIT(done, at) asm volatile( \
        "{ .reg .pred q; mbarrier.try_wait.parity.shared.b64 q, [%1], 0; selp.u32 %0, 1, 0, q; }" \
        : "=r"(done) : "r"(at) : "memory")
      extern "C" __global__ void k(int *p) {
        __shared__ alignas(8) unsigned long long bar;
        unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
        if (threadIdx.x == 0)
          asm volatile("mbarrier.init.shared.b64 [%0], 65;" :: "r"(at) : "memory");
        __syncthreads();
        asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");
        unsigned done;
        do
          WAIT(done, at);
        while (!done);
        p[threadIdx.x] = 1;
      }
    ]]
    local h = hazard_of(emulate(compile(source):kernel(), 64, { zeros(64) }), "deadlock")
    assert.matches(("initialised at PTX line %%d+ %%(kernel%%.cu:%d%%)"):format(line_of(source, "mbarrier.init")),
      h.message)
    contains(h.message, ("(kernel.cu:%d)"):format(line_of(source, "mbarrier.arrive")))
    assert.equal(line_of(source, "WAIT(done, at);"), h.line)
  end)

  with_nvrtc("has the line where an mbarrier was made that another warp uses in no order", function()
    local source = [[
      extern "C" __global__ void k(volatile int *p) {
        __shared__ alignas(8) unsigned long long bar;
        unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
        if (threadIdx.x == 0) {
          asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
          p[0] = 1;
        }
        if (threadIdx.x == 32) {
          while (!p[0]);
          asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");
        }
      }
    ]]
    local h = hazard_of(emulate(compile(source):kernel(), 64, { zeros(64) }), "mbarrier-init-unordered")
    assert.matches(("initialised by warp 0 of CTA %%(0,0,0%%) at PTX line %%d+ %%(kernel%%.cu:%d%%)"):format(
      line_of(source, "mbarrier.init")), h.message)
    assert.equal(line_of(source, "mbarrier.arrive"), h.line)
  end)
end)

describe("an instruction that there is not", function()
  with_nvrtc("has the line of its asm statement", function()
    local source = [[
      __device__ __forceinline__ int odd(int x) {
        asm("nonsense.s32 %0, %0;" : "+r"(x));
        return x;
      }
      extern "C" __global__ void k(int *p) {
        p[0] = odd(p[1]);
      }
    ]]
    local f = compile(source):kernel()
    local ok, message = pcall(emulate, f, 1, { zeros(2) })
    assert.is_false(ok)
    assert.matches(("PTX line %%d+ %%(kernel%%.cu:%d, inlined at kernel%%.cu:%d%%): nonsense%%.s32: "):format(
      line_of(source, "nonsense"), line_of(source, "odd(p[1])")), message)
  end)
end)

describe("lanes that ran apart", function()
  with_nvrtc("have the lines at which they are", function()
    local source = [[
      extern "C" __global__ void k(int *p) {
        if (threadIdx.x < 16)
          asm volatile("barrier.sync.aligned 0;");
        else
          asm volatile("barrier.sync.aligned 1;");
        p[threadIdx.x] = 1;
      }
    ]]
    local h = hazard_of(emulate(compile(source):kernel(), 32, { zeros(32) }), "diverged-aligned")
    local one, two = line_of(source, "aligned 0"), line_of(source, "aligned 1")
    assert.equal(one + two - h.line, tonumber(h.message:match "at PTX line %d+ %(kernel%.cu:(%d+)%)"))
  end)
end)

describe("a trace of CUDA C", function()
  with_nvrtc("has slices by lines of the kernel, not of what it calls", function()
    local source = [[
      __device__ __forceinline__ int twice(int x) {
        return 2 * x;
      }
      extern "C" __global__ void k(int *p) {
        int x = p[threadIdx.x];
        __syncthreads();
        p[threadIdx.x] = twice(x) + 1;
      }
    ]]
    local report = emulate(compile(source):kernel(), 64, { zeros(64) }, { trace = true })
    local seen = {}
    for _, event in ipairs(json.decode(report.trace_text).traceEvents) do
      if event.cat == "line" then seen[event.name] = true end
    end
    assert.is_true(seen["line " .. line_of(source, "int x = p")])
    assert.is_true(seen["line " .. line_of(source, "twice(x) + 1")])
    assert.is_nil(seen["line " .. line_of(source, "return 2 * x;")])
  end)
end)

describe("tc.cuda", function()
  local source = "extern \"C\" __global__ void k(int *p) { *p = 1; }"

  with_nvrtc("names files as they were given, whatever folder is the current one", function()
    local folder = process.folder()
    local text = compile(source, { name = "a/b.cu" }):ptx()
    assert.equal("a/b.cu", text:match '%.file%s+1%s+"(.-)"')
    for _, change in ipairs { "/", folder } do
      local pipe = assert(io.popen("cd " .. change .. " && " .. process.command(([[
        io.write((require "tcmma").cuda(%q, { target = %q, name = "a/b.cu" }):ptx())]]):format(source, target),
        { LUA_PATH = package.path, LUA_CPATH = package.cpath })))
      assert.equal(text, pipe:read "a")
      pipe:close()
    end
    process.remove(folder)
    assert.equal("/a/b.cu", compile(source, { name = "/a/b.cu" }):ptx():match '%.file%s+1%s+"(.-)"')
  end)

  with_nvrtc("takes names with other letters, but no quotes", function()
    local text = "extern \"C\" __global__ void k(int *p) {\n  p[64] = 1;\n}"
    local h = hazard_of(emulate(compile(text, { name = "größe\\a\nb.cu" }):kernel(), 1, { zeros(64) }), "out-of-bounds")
    assert.same({ "größe\\a\nb.cu", 2, "p[64] = 1;" }, { h.file, h.line, h.text })
    assert.error_matches(function() compile(source, { name = 'a"b.cu' }) end,
      "option 'name' must have no double quotes in it", 1, true)
    assert.error_matches(function() compile(source, { lineinfo = 1 }) end, "option 'lineinfo' must be", 1, true)
  end)

  -- Sections of an ELF file by name.
  local function sections(cubin)
    local table_at = string.unpack("<I8", cubin, 0x28 + 1)
    local count, names_index = string.unpack("<I2I2", cubin, 0x3c + 1)
    local list, found = {}, {}
    for i = 0, count - 1 do
      local name, kind, _, _, offset, size = string.unpack("<I4I4I8I8I8I8", cubin, table_at + 64 * i + 1)
      list[i] = { name = name, kind = kind, offset = offset, size = size }
    end
    for i = 0, count - 1 do
      local s = list[i]
      local name = string.unpack("z", cubin, list[names_index].offset + s.name + 1)
      found[name] = s.kind == 8 and s.size or cubin:sub(s.offset + 1, s.offset + s.size)
    end
    return found
  end

  (tc.versions().nvrtc and with_assembler or pending)("makes the same machine code with and without lines", function()
    local text = [[
      __device__ float f(float x, int n) { return n ? f(x * 1.1f, n - 1) + powf(x, 0.3f) : sinf(x); }
      struct Sum { float v; __device__ void add(float x) { v += x * x; } };
      __global__ void first(const float *in, float *out, int n) {
        __shared__ float s[128];
        Sum sum = { 0 };
        for (int i = threadIdx.x; i < n; i += blockDim.x) sum.add(in[i]);
        s[threadIdx.x] = sum.v;
        __syncthreads();
        for (int w = 64; w; w /= 2) {
          if (threadIdx.x < w) s[threadIdx.x] += s[threadIdx.x + w];
          __syncthreads();
        }
        if (!threadIdx.x) atomicAdd(out, s[0]);
      }
      __global__ void second(float *p, int n) {
        switch (n & 3) { case 0: *p = f(*p, 3); break; case 1: *p = tanf(*p); break; case 2: *p = erff(*p); }
      }
    ]]
    local with = sections((assert(compile(text):cubin())))
    local without = sections((assert(compile(text, { lineinfo = false }):cubin())))
    local compared = 0
    for name, content in pairs(without) do
      if name:find "^%.text" or name:find "^%.nv%.constant" or name:find "^%.nv%.shared" then
        assert(content == with[name], name)
        compared = compared + 1
      end
    end
    assert.is_true(compared >= 5)
  end)
end)

describe("PTX that another compiler gave lines", function()
  local function read(name)
    local file = assert(io.open(directory .. name))
    local text = file:read "a"
    file:close()
    return text
  end

  it("has them in reports", function()
    local source = read "nvcc_sm90_lines.cu"
    local report = emulate(tc.ptx(read "nvcc_sm90_lines.ptx"):kernel(), 64, { zeros(32), zeros(32), 0 })
    local h = hazard_of(report, "shared-race")
    local file = "/src/nvcc_sm90_lines.cu"
    assert.same({ file, line_of(source, "return row->values") }, { h.file, h.line })
    assert.same({ file, line_of(source, "values[i] = value;") }, { h.other_file, h.other_line })
    assert.same({ { file = file, line = line_of(source, "rows[r].put(") },
      { file = file, line = line_of(source, "fill<4>(") } }, h.other_inlined_at)
    assert.same({}, { h.text, h.other_text })
  end)
end)

local head = ".version 9.0\n.target sm_90a\n.address_size 64\n"
local file = '.file 1 "a.cu"\n'
local names = ".section .debug_str\n{\n$L__name0:\n.b8 95,0\n}\n"

local function entry(body)
  return ".visible .entry k()\n{\n.reg .b32 %r<3>;\n" .. body .. "\nret;\n}\n"
end

local function inlined(tail)
  return head .. file .. entry(".loc 1 9 3\n.loc 1 2 3" .. tail) .. names
end

local function section(content)
  return head .. entry "" .. ".section .debug_info\n{\n" .. content .. "\n}\n"
end

local call = ", function_name $L__name0, inlined_at 1 9 3"

local good = {
  ["a position"] = head .. file .. entry ".loc 1 2 3",
  ["a file behind its positions"] = head .. entry ".loc 1 2 3" .. file,
  ["no file"] = head .. entry ".loc 1 2 3",
  ["another file"] = head .. file .. entry ".loc 2 2 3",
  ["file 0"] = head .. '.file 0 "a.cu"\n' .. entry ".loc 0 2 3",
  ["line 0"] = head .. file .. entry ".loc 1 0 0",
  ["the largest line"] = head .. file .. entry ".loc 1 4294967295 3",
  ["numbers in base 16 and with U"] = head .. file .. entry ".loc 0x1 2U 0x3",
  ["a position over several lines"] = head .. file .. entry ".loc 1\n2\n3\nmov.u32 %r1, 5;",
  ["a position and an instruction in a line"] = head .. file .. entry ".loc 1 2 3 mov.u32 %r1, 5;",
  ["a position in a block"] = head .. file .. entry "{\n.loc 1 1 1\n}",
  ["a position behind a label"] = head .. file .. entry "L:\n.loc 1 1 1",
  ["a position behind the last instruction"] = head .. file .. entry "ret;\n.loc 1 1 1",
  ["a position in front of registers"] = head .. file ..
    ".visible .entry k()\n{\n.loc 1 1 1\n.reg .b32 %r1;\nret;\n}\n",
  ["an inlined function"] = inlined(call),
  ["a name and an offset"] = inlined ", function_name $L__name0+1, inlined_at 1 9 3",
  ["a name far behind the section"] = inlined ", function_name $L__name0+100, inlined_at 1 9 3",
  ["the section as name"] = inlined ", function_name .debug_str, inlined_at 1 9 3",
  ["the section and an offset as name"] = inlined ", function_name .debug_str+0, inlined_at 1 9 3",
  ["names in front of the code"] = head .. file .. names .. entry(".loc 1 9 3\n.loc 1 2 3" .. call),
  ["an inlined function in an inlined function"] =
    inlined(call .. "\n.loc 1 5 5, function_name $L__name0, inlined_at 1 2 3"),
  ["a call in another function"] = head .. file .. ".visible .entry j()\n{\n.loc 1 9 3\nret;\n}\n" ..
    entry(".loc 1 2 3" .. call) .. names,
  ["two sections of a name"] = inlined(call) .. names:gsub("name0", "name1"),
  ["the time and the size of a file"] = head .. '.file 1 "a.cu", 1700000000, 12\n' .. entry "",
  ["the time of a file"] = head .. '.file 1 "a.cu", 1700000000\n' .. entry "",
  ["two numbers of a file"] = head .. file .. '.file 2 "a.cu"\n' .. entry ".loc 1 2 3",
  ["a large number of a file"] = head .. '.file 2147483647 "a.cu"\n' .. entry ".loc 2147483647 2 3",
  ["a file without a name"] = head .. '.file 1 ""\n' .. entry ".loc 1 2 3",
  ["a line end in a name"] = head .. '.file 1 "a\nb.cu"\n' .. entry ".loc 1 2 3",
  ["an empty section"] = section "",
  ["a section of any name"] = head .. entry "" .. ".section .foo { .b8 1 }\n",
  ["data of every type"] = section ".b8 1,2\n.b16 3\n.b32 4,5\n.b64 6\n.b8 -3, 0xff, 017",
  ["labels in data"] = section "a:\n.b8 1,2\nb:\n.b32 b-a\n.b64 a\n.b32 a+4\n.b64 .debug_abbrev\n.b32 .debug_str+4",
  ["labels that are nowhere"] = section ".b64 nothing",
  ["words that are cut"] = section ".b32 4294967296",
}

local bad = {
  ["a negative file"] = head .. file .. entry ".loc -1 2 3",
  ["a negative line"] = head .. file .. entry ".loc 1 -2 3",
  ["a negative column"] = head .. file .. entry ".loc 1 2 -3",
  ["an expression"] = head .. file .. entry ".loc 1 2+1 3",
  ["a line of 33 bits"] = head .. file .. entry ".loc 1 4294967296 3",
  ["a column of 33 bits"] = head .. file .. entry ".loc 1 2 4294967296",
  ["a file of 33 bits"] = head .. file .. entry ".loc 4294967297 2 3",
  ["two numbers"] = head .. file .. entry ".loc 1 2",
  ["four numbers"] = head .. file .. entry ".loc 1 2 3 4",
  ["a semicolon"] = head .. file .. entry ".loc 1 2 3;mov",
  ["a float"] = head .. file .. entry ".loc 1 2.0 3",
  ["a name of a file"] = head .. file .. entry ".loc a 2 3",
  ["commas"] = head .. file .. entry ".loc 1, 2, 3",
  ["a comma at the end"] = head .. file .. entry ".loc 1 2 3,",
  ["a position outside functions"] = head .. file .. ".loc 1 2 3\n" .. entry "",
  ["a position in front of the body"] = head .. file .. ".visible .entry k()\n.loc 1 1 1\n{\nret;\n}\n",
  ["a call that is no position"] = head .. file .. entry(".loc 1 2 3" .. call) .. names,
  ["a call in another column"] = head .. file .. entry(".loc 1 9 4\n.loc 1 2 3" .. call) .. names,
  ["a call of itself"] = head .. file .. entry ".loc 1 9 3, function_name $L__name0, inlined_at 1 9 3" .. names,
  ["a call in another file"] = inlined ", function_name $L__name0, inlined_at 7 9 3",
  ["a negative offset"] = inlined ", function_name $L__name0-1, inlined_at 1 9 3",
  ["two offsets"] = inlined ", function_name $L__name0+1+1, inlined_at 1 9 3",
  ["a label that is nowhere"] = inlined ", function_name $L__name9, inlined_at 1 9 3",
  ["another section as name"] = inlined ", function_name .debug_info, inlined_at 1 9 3",
  ["a number as name"] = inlined ", function_name 5, inlined_at 1 9 3",
  ["a label of the code as name"] = head .. file ..
    entry "x:\n.loc 1 9 3\n.loc 1 2 3, function_name x, inlined_at 1 9 3",
  ["a variable as name"] = head .. file .. ".global .b32 x;\n" ..
    entry ".loc 1 9 3\n.loc 1 2 3, function_name x, inlined_at 1 9 3",
  ["a name alone"] = inlined ", function_name $L__name0",
  ["a call alone"] = inlined ", inlined_at 1 9 3",
  ["the call first"] = inlined ", inlined_at 1 9 3, function_name $L__name0",
  ["two calls"] = inlined(call .. call),
  ["no comma between"] = inlined ", function_name $L__name0 inlined_at 1 9 3",
  ["no comma in front"] = inlined " function_name $L__name0, inlined_at 1 9 3",
  ["two numbers of a call"] = inlined ", function_name $L__name0, inlined_at 1 9",
  ["a negative call"] = inlined ", function_name $L__name0, inlined_at 1 -9 3",
  ["a call of 33 bits"] = inlined ", function_name $L__name0, inlined_at 1 4294967296 3",
  ["a file without name"] = head .. ".file 1\n" .. entry "",
  ["a file without number"] = head .. '.file "a.cu"\n' .. entry "",
  ["a negative number of a file"] = head .. '.file -1 "a.cu"\n' .. entry "",
  ["a number of a file of 33 bits"] = head .. '.file 4294967296 "a.cu"\n' .. entry "",
  ["an expression as number of a file"] = head .. '.file 1+1 "a.cu"\n' .. entry "",
  ["a name without quotes"] = head .. ".file 1 a.cu\n" .. entry "",
  ["a quote in a name"] = head .. entry "" .. '.file 1 "a\\"b.cu"\n.file 2 "c.cu"\n',
  ["three numbers behind a name"] = head .. '.file 1 "a.cu", 1700000000, 12, 13\n' .. entry "",
  ["a negative time"] = head .. '.file 1 "a.cu", -1, 12\n' .. entry "",
  ["no comma in front of the time"] = head .. '.file 1 "a.cu" 12, 13\n' .. entry "",
  ["a semicolon behind a file"] = head .. '.file 1 "a.cu";\n.file 2 5\n' .. entry "",
  ["two files of a number"] = head .. file .. file .. entry "",
  ["two files of a number, one behind"] = head .. file .. entry "" .. '.file 1 "b.cu"\n',
  ["a file in a function"] = head .. entry '.file 1 "a.cu"',
  ["a section without end"] = head .. entry "" .. ".section .debug_str\n{\n$L0:\n.b8 3\n",
  ["a section without name"] = head .. entry "" .. ".section\n{\n}\n",
  ["a section of a word"] = head .. entry "" .. ".section debug_info\n{\n}\n",
  ["a section in quotes"] = head .. entry "" .. '.section ".debug_info"\n{\n}\n',
  ["a section in a function"] = head .. entry ".section .debug_str\n{\n.b8 1\n}\n",
  ["a section with linkage"] = head .. entry "" .. ".visible .section .debug_info\n{\n}\n",
  ["a section in a section"] = section "{ }",
  ["words in a section"] = section "hello world 5 ;",
  ["a label twice"] = section "$L0:\n.b8 3\n$L0:\n.b8 3",
  ["bytes of 9 bits"] = section ".b8 300",
  ["half words of 17 bits"] = section ".b16 65536",
  ["other types of data"] = section ".u8 1",
  ["floats as data"] = section ".f32 1.0",
  ["strings as data"] = section '.b8 "abc"',
  ["expressions as data"] = section ".b8 1+2",
  ["a semicolon behind data"] = section ".b8 1;",
  ["a comma behind data"] = section ".b8 1,",
  ["a label as a half word"] = section "a: .b16 a",
  ["a list of labels"] = section "a: .b32 a, a",
  ["a label less a number"] = section "a: .b32 a-4",
}

-- Whether the emulator loads the text, and what it says if not.
local function loads(text)
  local ok, why = pcall(function() return tc.ptx(text):kernel "k":emulate { target = target } end)
  if not ok then assert.matches("PTX line %d+", why) end
  return ok, why
end

describe("the emulator", function()
  for name, text in pairs(good) do
    it("takes " .. name, function() assert(loads(text)) end)
  end
  for name, text in pairs(bad) do
    it("refuses " .. name, function() assert.is_false((loads(text))) end)
  end

  it("has no line where the file is unknown, and that of the call at line 0", function()
    local function position(locations)
      local text = head .. '.file 1 "a.cu"\n.visible .entry k()\n{\n' .. locations ..
        "\n.reg .b64 %rd<2>;\nmov.b64 %rd1, 0;\nld.global.b64 %rd1, [%rd1];\nret;\n}\n" .. names
      local h = emulate(tc.ptx(text):kernel(), 1, {}).hazards[1]
      return { h.file, h.line, h.inlined_at }
    end
    assert.same({ "a.cu", 2 }, position ".loc 1 2 3")
    assert.same({}, position ".loc 7 2 3")
    assert.same({}, position ".loc 1 2 3\n.loc 1 0 0")
    assert.same({ "a.cu", 9 }, position(".loc 1 9 3\n.loc 1 0 3" .. call))
    assert.same({ "a.cu", 9 }, position(".loc 1 9 3\n.loc 7 5 3" .. call))
    assert.same({ "a.cu", 2, { { file = "a.cu", line = 9 } } }, position(".loc 1 9 3\n.loc 1 2 3" .. call))
    -- The call is the last position of that place.
    assert.same({ "a.cu", 2, { { file = "a.cu", line = 5 }, { file = "a.cu", line = 9 } } },
      position(".loc 1 9 3\n.loc 1 5 1" .. call .. "\n.loc 1 2 3, function_name $L__name0, inlined_at 1 5 1"))
  end)

  it("reads many positions", function()
    local lines = {}
    for i = 1, 40000 do
      lines[#lines + 1] = (".loc 1 %d 1\n.loc 1 7 7, function_name $L__name0, inlined_at 1 %d 1"):format(i, i)
    end
    assert(loads(head .. file .. entry(table.concat(lines, "\n")) .. names))
  end)
end)

describe("the assembler", function()
  with_assembler("takes and refuses the same", function()
    local wrong = {}
    for expected, list in pairs { [true] = good, [false] = bad } do
      for name, text in pairs(list) do
        local ok = pcall(function() return assert(tc.ptx(text):cubin()) end)
        if ok ~= expected then wrong[#wrong + 1] = name end
      end
    end
    table.sort(wrong)
    assert.same({}, wrong)
  end)
end)
