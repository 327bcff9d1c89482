-- Scalar CUDA C compiled by NVRTC, run on the emulator, compared with values computed here.
local tc = require "tcmma"
local process = require "spec.process"

local with_nvrtc = tc.versions().nvrtc and it or pending

-- Runs a kernel of one block of `n` threads; `args` are arrays and numbers.
local function run(source, n, args, opts)
  opts = opts or {}
  local module = assert(tc.cuda(source, { target = opts.target, options = opts.options }))
  local f = module:kernel(opts.kernel or "k")
  f:launch{ grid = opts.grid or { 1 }, block = { n }, smem = opts.smem, args = args, cluster = opts.cluster }
  return f
end

local function iota(n, dtype, f)
  local values = {}
  for i = 1, n do values[i] = f and f(i - 1) or i - 1 end
  return tc.from_table(values, dtype), values
end

local function u32(x) return x & 0xffffffff end
local function s32(x) x = u32(x); return x >= 2 ^ 31 and x - (1 << 32) or x end
local function f32(x) return (string.unpack("f", string.pack("f", x))) end

local function same(expected, array)
  assert.same(expected, array:totable())
end

describe("integers on the emulator", function()
  with_nvrtc("add, multiply, shift and compare as in 32 bits", function()
    local n = 64
    local a, av = iota(n, tc.i32, function(i) return s32(i * 2654435761) end)
    local b, bv = iota(n, tc.i32, function(i) return s32(i * 40503 - 77777) end)
    local out = tc.zeros({ n, 8 }, tc.i32)
    run([[extern "C" __global__ void k(const int *a, const int *b, int *out) {
      int i = threadIdx.x, x = a[i], y = b[i];
      int *o = out + 8 * i;
      o[0] = x + y; o[1] = x - y; o[2] = x * y; o[3] = x ^ (y << 3);
      o[4] = (unsigned)x >> 5; o[5] = x >> 5; o[6] = x < y ? 1 : -1; o[7] = min(x, y) & max(x, y);
    }]], n, { a, b, out })
    local expected = {}
    for i = 1, n do
      local x, y = av[i], bv[i]
      expected[i] = { s32(x + y), s32(x - y), s32(x * y), s32(x ~ (y << 3)), s32(u32(x) >> 5), s32(x // 32),
        x < y and 1 or -1, s32(math.min(x, y) & math.max(x, y)) }
    end
    same(expected, out)
  end)

  with_nvrtc("divide and take remainders as C does", function()
    local n = 96
    local a, av = iota(n, tc.i32, function(i) return s32((i - 48) * 97531) end)
    local b, bv = iota(n, tc.i32, function(i) return (i % 13) * 2 - 13 end)
    local out = tc.zeros({ n, 4 }, tc.i32)
    run([[extern "C" __global__ void k(const int *a, const int *b, int *out) {
      int i = threadIdx.x; int *o = out + 4 * i;
      o[0] = a[i] / b[i]; o[1] = a[i] % b[i];
      o[2] = (unsigned)a[i] / (unsigned)(i + 1); o[3] = (unsigned)a[i] % 7u;
    }]], n, { a, b, out })
    local expected = {}
    for i = 1, n do
      local x, y = av[i], bv[i]
      local quotient = (math.abs(x) // math.abs(y)) * ((x < 0) ~= (y < 0) and -1 or 1)
      expected[i] = { quotient, x - quotient * y, s32(u32(x) // i), u32(x) % 7 }
    end
    same(expected, out)
  end)

  with_nvrtc("handle 64 bits, high products and bit counts", function()
    local n = 32
    local a, av = iota(n, tc.i64, function(i) return i * 0x123456789abcdef + 7 end)
    local out = tc.zeros({ n, 6 }, tc.i64)
    run([[extern "C" __global__ void k(const long long *a, long long *out) {
      int i = threadIdx.x; long long x = a[i], *o = out + 6 * i;
      o[0] = x * 1000003; o[1] = x >> 7; o[2] = __umulhi((unsigned)x, 0x9e3779b9u);
      o[3] = __popcll(x); o[4] = __clz((int)x | 1); o[5] = __brev((unsigned)x);
    }]], n, { a, out })
    local function count(x) local c = 0; while x ~= 0 do c = c + (x & 1); x = x >> 1 end; return c end
    local function reverse(x) local r = 0; for _ = 1, 32 do r = r << 1 | x & 1; x = x >> 1 end; return r end
    local function clz(x) local c = 0; while x & 0x80000000 == 0 do c, x = c + 1, x << 1 end; return c end
    local expected = {}
    for i, x in ipairs(av) do
      local product = (u32(x) >> 16) * 0x9e3779b9 + ((u32(x) & 0xffff) * 0x9e3779b9 >> 16)
      expected[i] = { x * 1000003, x // 128, product >> 16, count(x), clz(u32(x) | 1), reverse(u32(x)) }
    end
    same(expected, out)
  end)

  with_nvrtc("load and store bytes and shorts", function()
    local n = 40
    local a, av = iota(n, tc.u8, function(i) return i * 37 % 256 end)
    local out8, out16 = tc.zeros({ n }, tc.i8), tc.zeros({ n }, tc.i16)
    run([[extern "C" __global__ void k(const unsigned char *a, signed char *b, short *c) {
      int i = threadIdx.x; b[i] = (signed char)(a[i] * 3); c[i] = (short)(a[i] * 1000);
    }]], n, { a, out8, out16 })
    local e8, e16 = {}, {}
    for i, x in ipairs(av) do
      e8[i] = (x * 3 + 128) % 256 - 128
      e16[i] = (x * 1000 + 32768) % 65536 - 32768
    end
    same(e8, out8)
    same(e16, out16)
  end)
end)

describe("floating point on the emulator", function()
  with_nvrtc("float arithmetic is rounded once an operation", function()
    local n = 64
    local a, av = iota(n, tc.f32, function(i) return f32(i * 0.37 - 9.1) end)
    local b, bv = iota(n, tc.f32, function(i) return f32(1.7 / (i + 1)) end)
    local out = tc.zeros({ n, 5 }, tc.f32)
    run([[extern "C" __global__ void k(const float *a, const float *b, float *out) {
      int i = threadIdx.x; float *o = out + 5 * i;
      o[0] = __fadd_rn(a[i], b[i]); o[1] = __fmul_rn(a[i], b[i]); o[2] = __fdiv_rn(a[i], b[i]);
      o[3] = __fsqrt_rn(b[i]); o[4] = fmaxf(a[i], b[i]);
    }]], n, { a, b, out })
    local expected = {}
    for i = 1, n do
      local x, y = av[i], bv[i]
      expected[i] = { f32(x + y), f32(x * y), f32(x / y), f32(math.sqrt(y)), math.max(x, y) }
    end
    same(expected, out)
  end)

  with_nvrtc("double arithmetic is Lua's own", function()
    local n = 32
    local a, av = iota(n, tc.f64, function(i) return i * 0.1 - 1 end)
    local out = tc.zeros({ n, 4 }, tc.f64)
    run([[extern "C" __global__ void k(const double *a, double *out, double c) {
      int i = threadIdx.x; double x = a[i], *o = out + 4 * i;
      o[0] = __dadd_rn(__dmul_rn(x, x), c); o[1] = x / 3.0; o[2] = sqrt(fabs(x)); o[3] = floor(x * 10);
    }]], n, { a, out, 0.3 })
    local expected = {}
    for i, x in ipairs(av) do
      expected[i] = { x * x + 0.3, x / 3.0, math.sqrt(math.abs(x)), math.floor(x * 10) + 0.0 }
    end
    same(expected, out)
  end)

  with_nvrtc("half arithmetic rounds to half", function()
    local n = 32
    local a, av = iota(n, tc.f16, function(i) return i * 0.25 - 3 end)
    local out = tc.zeros({ n, 2 }, tc.f16)
    run([[#include <cuda_fp16.h>
    extern "C" __global__ void k(const __half *a, __half *out) {
      int i = threadIdx.x;
      out[2 * i] = __hmul(a[i], a[i]); out[2 * i + 1] = __hadd(a[i], __float2half(0.5f));
    }]], n, { a, out })
    local expected = {}
    for i, x in ipairs(av) do expected[i] = { x * x, x + 0.5 } end
    same(expected, out)
  end)

  with_nvrtc("conversions truncate, round and saturate", function()
    local values = { 0.5, 1.5, -1.5, 2.5, 3.999, -3.999, 3e9, -3e9, 1e20, -1e20, 127.5, -0.25 }
    local n = #values
    local out = tc.zeros({ n, 3 }, tc.i32)
    run([[extern "C" __global__ void k(const float *a, int *out) {
      int i = threadIdx.x; int *o = out + 3 * i;
      o[0] = (int)a[i]; o[1] = __float2int_rn(a[i]); o[2] = (int)__float2uint_rz(a[i]);
    }]], n, { tc.from_table(values, tc.f32), out })
    local function clamp(x, low, high) return math.max(low, math.min(high, x)) end
    local function round(x) local r = math.floor(x + 0.5); return r - x == 0.5 and r % 2 == 1 and r - 1 or r end
    local expected = {}
    for i, x in ipairs(values) do
      x = f32(x)
      local t = x < 0 and math.ceil(x) or math.floor(x)
      expected[i] = { math.tointeger(clamp(t, -2 ^ 31, 2 ^ 31 - 1)),
        math.tointeger(clamp(round(x), -2 ^ 31, 2 ^ 31 - 1)), s32(math.tointeger(clamp(t, 0, 2 ^ 32 - 1))) }
    end
    same(expected, out)
  end)

  with_nvrtc("elementary functions are close to Lua's", function()
    local n = 64
    local a, av = iota(n, tc.f32, function(i) return f32(0.05 + i * 0.11) end)
    local out = tc.zeros({ n, 6 }, tc.f32)
    run([[extern "C" __global__ void k(const float *a, float *out) {
      int i = threadIdx.x; float x = a[i], *o = out + 6 * i;
      o[0] = expf(x); o[1] = logf(x); o[2] = sinf(x); o[3] = rsqrtf(x); o[4] = tanhf(x); o[5] = powf(x, 1.5f);
    }]], n, { a, out })
    for i, row in ipairs(out:totable()) do
      local x = av[i]
      local e = math.exp(2 * x)
      local expected = { math.exp(x), math.log(x), math.sin(x), x ^ -0.5, (e - 1) / (e + 1), x ^ 1.5 }
      for j, y in ipairs(expected) do
        local near = math.abs(row[j] - y) <= 1e-6 * math.max(1, math.abs(y))
        assert.is_true(near, ("%d %d: %g %g"):format(i, j, row[j], y))
      end
    end
  end)
end)

describe("threads of a block on the emulator", function()
  with_nvrtc("reverse through shared memory", function()
    local n = 256
    local a, av = iota(n, tc.i32, function(i) return i * 3 end)
    run([[extern "C" __global__ void k(int *p) {
      __shared__ int s[256];
      s[threadIdx.x] = p[threadIdx.x]; __syncthreads(); p[threadIdx.x] = s[255 - threadIdx.x];
    }]], n, { a })
    local expected = {}
    for i = 1, n do expected[i] = av[n + 1 - i] end
    same(expected, a)
  end)

  with_nvrtc("sum by a tree in dynamic shared memory, over several blocks", function()
    local n, blocks = 128, 5
    local a, av = iota(n * blocks, tc.f32, function(i) return i % 17 end)
    local out = tc.zeros({ blocks }, tc.f32)
    run([[extern "C" __global__ void k(const float *a, float *out) {
      extern __shared__ float s[];
      s[threadIdx.x] = a[blockIdx.x * blockDim.x + threadIdx.x];
      for (int d = blockDim.x / 2; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
      }
      if (threadIdx.x == 0) out[blockIdx.x] = s[0];
    }]], n, { a, out }, { grid = { blocks }, smem = n * 4 })
    local expected = {}
    for b = 1, blocks do
      expected[b] = 0.0
      for i = 1, n do expected[b] = expected[b] + av[(b - 1) * n + i] end
    end
    same(expected, out)
  end)

  with_nvrtc("shuffle, vote and match within a warp", function()
    local n = 64
    local out = tc.zeros({ n, 7 }, tc.i32)
    run([[extern "C" __global__ void k(int *out) {
      int i = threadIdx.x; int *o = out + 7 * i;
      o[0] = __shfl_sync(~0u, i * 2, 5); o[1] = __shfl_up_sync(~0u, i, 3); o[2] = __shfl_down_sync(~0u, i, 2);
      o[3] = __shfl_xor_sync(~0u, i, 16); o[4] = __ballot_sync(~0u, i % 3 == 0);
      o[5] = __any_sync(~0u, i == 40) * 2 + __all_sync(~0u, i < 40); o[6] = __reduce_add_sync(~0u, i);
    }]], n, { out })
    local expected = {}
    for i = 0, n - 1 do
      local lane, base, ballot, sum = i % 32, i // 32 * 32, 0, 0
      for j = 0, 31 do
        if (base + j) % 3 == 0 then ballot = ballot | 1 << j end
        sum = sum + base + j
      end
      expected[i + 1] = { (base + 5) * 2, lane >= 3 and i - 3 or i, lane < 30 and i + 2 or i, i ~ 16, s32(ballot),
        base == 32 and 2 or 1, sum }
    end
    same(expected, out)
  end)

  with_nvrtc("diverge and meet again", function()
    local n = 64
    local out = tc.zeros({ n }, tc.i32)
    run([[extern "C" __global__ void k(int *out) {
      int i = threadIdx.x, x = i + 1, steps = 0;
      while (x != 1) { x = x % 2 ? 3 * x + 1 : x / 2; steps++; }
      switch (i % 4) { case 0: steps += 1000; break; case 1: steps -= 1; case 2: steps *= 2; break; default: return; }
      __syncwarp(__activemask());
      out[i] = steps;
    }]], n, { out })
    local expected = {}
    for i = 0, n - 1 do
      local x, steps = i + 1, 0
      while x ~= 1 do x = x % 2 == 1 and 3 * x + 1 or x // 2; steps = steps + 1 end
      if i % 4 == 0 then steps = steps + 1000
      elseif i % 4 == 1 then steps = (steps - 1) * 2
      elseif i % 4 == 2 then steps = steps * 2
      else steps = 0 end
      expected[i + 1] = steps
    end
    same(expected, out)
  end)

  with_nvrtc("count by atomics in shared and global memory", function()
    local n, blocks = 128, 4
    local bins, extremes = tc.zeros({ 10 }, tc.i32), tc.from_table({ 1000, -1000, 0, 0 }, tc.i32)
    run([[extern "C" __global__ void k(int *bins, int *e) {
      __shared__ int s[10];
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (threadIdx.x < 10) s[threadIdx.x] = 0;
      __syncthreads();
      atomicAdd(&s[i * 7 % 10], 1);
      __syncthreads();
      if (threadIdx.x < 10) atomicAdd(&bins[threadIdx.x], s[threadIdx.x]);
      atomicMin(&e[0], i - 5); atomicMax(&e[1], i); atomicXor(&e[2], i);
      int old = e[3], seen;
      do { seen = old; old = atomicCAS(&e[3], seen, seen + 2); } while (old != seen);
    }]], n, { bins, extremes }, { grid = { blocks } })
    local expected, xor = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0
    for i = 0, n * blocks - 1 do
      expected[i * 7 % 10 + 1] = expected[i * 7 % 10 + 1] + 1
      xor = xor ~ i
    end
    same(expected, bins)
    same({ -5, n * blocks - 1, xor, 2 * n * blocks }, extremes)
  end)

  with_nvrtc("add floats and doubles by atomics", function()
    local sums32, sums64 = tc.zeros({ 1 }, tc.f32), tc.zeros({ 1 }, tc.f64)
    run([[extern "C" __global__ void k(float *a, double *b) {
      atomicAdd(a, (float)threadIdx.x); atomicAdd(b, threadIdx.x * 0.5);
    }]], 100, { sums32, sums64 })
    same({ 4950.0 }, sums32)
    same({ 2475.0 }, sums64)
  end)

  with_nvrtc("see their coordinates in three dimensions", function()
    local out = tc.zeros({ 2 * 3 * 2, 4 * 2 * 3 }, tc.i32)
    local module = assert(tc.cuda([[extern "C" __global__ void k(int *out) {
      int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
      int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
      out[b * blockDim.x * blockDim.y * blockDim.z + t] =
        threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x +
        10000 * blockIdx.y + 100000 * blockIdx.z;
    }]]))
    module:kernel():launch{ grid = { 2, 3, 2 }, block = { 4, 2, 3 }, args = { out } }
    local expected = {}
    for bz = 0, 1 do for by = 0, 2 do for bx = 0, 1 do
      local row = {}
      for z = 0, 2 do for y = 0, 1 do for x = 0, 3 do
        row[#row + 1] = x + 10 * y + 100 * z + 1000 * bx + 10000 * by + 100000 * bz
      end end end
      expected[#expected + 1] = row
    end end end
    same(expected, out)
  end)

  with_nvrtc("recurse and call through pointers", function()
    local out = tc.zeros({ 12 }, tc.i32)
    run([[__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
    extern "C" __global__ void k(int *out) { out[threadIdx.x] = fibonacci(threadIdx.x); }]], 12, { out })
    same({ 0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89 }, out)
  end)

  with_nvrtc("keep arrays in local memory and tables in constant memory", function()
    local n = 32
    local out = tc.zeros({ n }, tc.i32)
    run([[__constant__ int table[8] = { 3, 1, 4, 1, 5, 9, 2, 6 };
    __device__ int total;
    extern "C" __global__ void k(int *out) {
      int local[16];
      for (int j = 0; j < 16; j++) local[(j * 5 + threadIdx.x) % 16] = j + table[j % 8];
      int sum = 0;
      for (int j = 0; j <= threadIdx.x % 16; j++) sum = sum * 3 + local[j];
      atomicAdd(&total, 1);
      out[threadIdx.x] = sum;
    }]], n, { out })
    local table_, expected = { [0] = 3, 1, 4, 1, 5, 9, 2, 6 }, {}
    for t = 0, n - 1 do
      local at, sum = {}, 0
      for j = 0, 15 do at[(j * 5 + t) % 16] = j + table_[j % 8] end
      for j = 0, t % 16 do sum = s32(sum * 3 + at[j]) end
      expected[t + 1] = sum
    end
    same(expected, out)
  end)
end)

describe("a module on the emulator", function()
  with_nvrtc("shares its global variables between kernels and launches", function()
    local module = assert(tc.cuda[[
      __device__ int counter = 40;
      extern "C" __global__ void bump() { counter += 1; }
      extern "C" __global__ void read(int *out) { *out = counter; }]])
    local out = tc.zeros({ 1 }, tc.i32)
    module:kernel("bump"):launch{}
    module:kernel("bump"):launch{}
    module:kernel("read"):launch{ args = { out } }
    same({ 42 }, out)
  end)

  with_nvrtc("takes structs as strings of their bytes", function()
    local out = tc.zeros({ 2 }, tc.f64)
    local module = assert(tc.cuda[[
      struct point { int n; double x; char pad[200]; float y; };
      extern "C" __global__ void k(double *out, point p) { out[0] = p.n * p.x; out[1] = p.y; }]])
    module:kernel():launch{ args = { out, string.pack("<i4xxxxdc200fxxxx", 3, 1.5, "", 0.25) } }
    same({ 4.5, 0.25 }, out)
  end)

  with_nvrtc("prints into the report", function()
    local module = assert(tc.cuda[[extern "C" __global__ void k(float x) {
      if (threadIdx.x < 2) printf("thread %d of %s: %.2f %5u|%x %lld%%\n", threadIdx.x, "block",
        x * threadIdx.x, 42u, 255, -5000000000ll);
    }]])
    local report = module:kernel():emulate{ block = { 4 }, args = { 1.25 } }
    assert.is_true(report.completed)
    assert.same({}, report.hazards)
    local lines = {}
    for line in report.output:gmatch("[^\n]+") do lines[#lines + 1] = line end
    table.sort(lines)
    assert.same({ "thread 0 of block: 0.00    42|ff -5000000000%",
      "thread 1 of block: 1.25    42|ff -5000000000%" }, lines)
  end)

  with_nvrtc("runs with optimisation off as well", function()
    local n = 64
    local a, av = iota(n, tc.i32)
    run([[extern "C" __global__ void k(int *p) {
      int i = threadIdx.x, sum = 0;
      for (int j = 0; j <= i; j++) sum += j * j;
      p[i] = sum;
    }]], n, { a }, { options = { "-G" } })
    local sum, expected = 0, {}
    for i, x in ipairs(av) do sum = sum + x * x; expected[i] = sum end
    same(expected, a)
  end)

  with_nvrtc("counts what it did", function()
    local a = tc.zeros({ 64 }, tc.i32)
    local f = assert(tc.cuda[[extern "C" __global__ void k(int *p) { p[threadIdx.x] += 1; }]]):kernel()
    local counters = f:emulate{ block = { 64 }, args = { a } }.counters
    assert.equal(256, counters.global_read)
    assert.equal(256, counters.global_written)
    assert.is_true(counters.warp_instructions > 4 and counters.warp_instructions < 100)
    assert.equal(32 * counters.warp_instructions, counters.thread_instructions)
  end)
end)

describe("a fault on the emulator", function()
  with_nvrtc("out of bounds is an error at the launch, with rule, place and PTX line", function()
    local f = assert(tc.cuda[[extern "C" __global__ void k(int *p) { p[threadIdx.x] = 1; }]]):kernel()
    local a = tc.zeros({ 16 }, tc.i32)
    local ok, message = pcall(f.launch, f, { block = { 64 }, args = { a } })
    assert.is_false(ok)
    assert.matches("emu_cuda_spec.lua:%d+: kernel 'k' failed on emulator:sm_100a", message)
    assert.matches("[out-of-bounds]", message, 1, true)
    assert.matches("PTX line %d+\n%s+st%.", message)
    local report = f:emulate{ block = { 64 }, args = { a } }
    assert.is_false(report.completed)
    assert.equal("error", report.hazards[1].severity)
    assert.equal("out-of-bounds", report.hazards[1].rule)
    assert.is_true(report.hazards[1].ptx_line > 0)
    assert.matches("stopped, 1 hazard", tostring(report), 1, true)
  end)

  with_nvrtc("a misaligned access and a use after free", function()
    local f = assert(tc.cuda[[extern "C" __global__ void k(char *p) { *(int *)(p + 2) = 1; }]]):kernel()
    local a = tc.zeros({ 16 }, tc.i32)
    assert.equal("misaligned", f:emulate{ args = { a } }.hazards[1].rule)
    local address = a.address
    a:free()
    assert.equal("use-after-free", f:emulate{ args = { address + 2 } }.hazards[1].rule)
  end)

  with_nvrtc("a barrier that not all threads reach is a deadlock, not a hang", function()
    local f = assert(tc.cuda[[extern "C" __global__ void k(int *p) {
      if (threadIdx.x < 32) { while (*(volatile int *)p == 0); }
      __syncthreads();
    }]]):kernel()
    local report = f:emulate{ block = { 64 }, args = { tc.zeros({ 1 }, tc.i32) }, max_instructions = 10000000 }
    assert.is_false(report.completed)
    assert.equal("deadlock", report.hazards[1].rule)
  end)

  with_nvrtc("Ctrl-C ends a run, and only the run", function()
    local command = process.command[[
      local tc = require "tcmma"
      local f = tc.cuda[=[extern "C" __global__ void k(int *p) { for (;;) atomicAdd(p, 1); }]=]:kernel()
      print(pcall(f.launch, f, { args = { tc.zeros({ 1 }, "i32") } }))
      print("still here")]]
    local pipe = assert(io.popen("timeout -s INT -k 20 2 " .. command))
    local output = pipe:read("a")
    pipe:close()
    assert.matches("kernel 'k' was interrupted\nstill here\n", output, 1, true)
  end)

  with_nvrtc("a trap and a failed assertion end the grid", function()
    local trap = assert(tc.cuda[[extern "C" __global__ void k() { __trap(); }]]):kernel()
    assert.is_false(trap:emulate{}.completed)
    assert.error_matches(function() trap:launch{} end, "kernel 'k' failed")
  end)
end)
