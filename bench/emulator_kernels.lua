-- CUDA C of the kinds that the emulator's rate is measured on. Each entry: the source of a kernel `run`,
-- its launch, and its arguments.
local tc = require "tcmma"

local function floats(count, seed) return tc.rand({ count }, tc.float32, { seed = seed }) end

local threads = 8192

return {
   {
      name = "saxpy",
      source = [[
extern "C" __global__ void run(float *y, const float *x, float a, int n)
{
   for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
      y[i] = a * x[i] + y[i];
}]],
      args = function() return { floats(1 << 21, 1), floats(1 << 21, 2), 2.0, 1 << 21 } end,
   },
   {
      name = "elementwise, float4, exp and rsqrt",
      source = [[
extern "C" __global__ void run(float4 *y, const float4 *x, int n)
{
   for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
      float4 v = x[i];
      v.x = __expf(v.x) * rsqrtf(v.x + 1.0f);
      v.y = __expf(v.y) * rsqrtf(v.y + 1.0f);
      v.z = fmaxf(v.z - 0.5f, 0.0f) * v.z;
      v.w = v.w / (1.0f + __expf(-v.w));
      y[i] = v;
   }
}]],
      args = function() return { tc.empty({ 1 << 20 }, tc.float32), floats(1 << 20, 1), 1 << 18 } end,
   },
   {
      name = "sums of rows by shuffles",
      source = [[
extern "C" __global__ void run(float *sums, const float *x, int columns, int rows)
{
   __shared__ float part[8];
   int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
   for (int row = blockIdx.x; row < rows; row += gridDim.x) {
      float sum = 0;
      for (int i = threadIdx.x; i < columns; i += 256)
         sum += x[row * columns + i];
      for (int d = 16; d; d >>= 1)
         sum += __shfl_xor_sync(0xffffffffu, sum, d);
      if (lane == 0) part[warp] = sum;
      __syncthreads();
      if (warp == 0) {
         sum = lane < 8 ? part[lane] : 0;
         for (int d = 4; d; d >>= 1)
            sum += __shfl_down_sync(0xffffffffu, sum, d);
         if (lane == 0) sums[row] = sum;
      }
      __syncthreads();
   }
}]],
      args = function() return { tc.empty({ 1024 }, tc.float32), floats(1 << 20, 1), 1024, 1024 } end,
   },
   {
      name = "transpose through shared memory",
      source = [[
extern "C" __global__ void run(float *out, const float *in, int n)
{
   __shared__ float tile[32][33];
   int tx = threadIdx.x & 31, ty = threadIdx.x >> 5, tiles = n / 32;
   for (int t = blockIdx.x; t < tiles * tiles; t += gridDim.x) {
      int bx = t % tiles * 32, by = t / tiles * 32;
      for (int j = 0; j < 32; j += 8)
         tile[ty + j][tx] = in[(by + ty + j) * n + bx + tx];
      __syncthreads();
      for (int j = 0; j < 32; j += 8)
         out[(bx + ty + j) * n + by + tx] = tile[tx][ty + j];
      __syncthreads();
   }
}]],
      args = function() return { tc.empty({ 1 << 20 }, tc.float32), floats(1 << 20, 1), 1024 } end,
   },
   {
      name = "integer loop",
      source = [[
extern "C" __global__ void run(unsigned *out, int n)
{
   unsigned i = blockIdx.x * blockDim.x + threadIdx.x, h = i * 2654435761u + 1, sum = 0;
   for (int k = 0; k < n; k++) {
      h ^= h << 13;
      h ^= h >> 17;
      h ^= h << 5;
      sum += __popc(h) + (h & 255) * k + (h >> 24 > 100 ? h % 7 : __clz(h));
   }
   out[i] = sum;
}]],
      args = function() return { tc.empty({ threads }, tc.int32), 200 } end,
   },
   {
      name = "bf16 epilogue: scale, bias, gelu",
      source = [[
#include <cuda_bf16.h>
extern "C" __global__ void run(__nv_bfloat162 *out, const float4 *acc, const float *bias, float scale, int n)
{
   for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
      float4 v = acc[i];
      float x[4] = {v.x, v.y, v.z, v.w};
      for (int j = 0; j < 4; j++) {
         float t = x[j] * scale + bias[(4 * i + j) & 255], th;
         asm("tanh.approx.f32 %0, %1;" : "=f"(th) : "f"(t * (0.7978845608f + 0.0356774081f * t * t)));
         x[j] = 0.5f * t * (1 + th);
      }
      out[2 * i] = __floats2bfloat162_rn(x[0], x[1]);
      out[2 * i + 1] = __floats2bfloat162_rn(x[2], x[3]);
   }
}]],
      args = function()
         local acc = tc.randn({ 1 << 19 }, tc.float32, { seed = 1 })
         return { tc.empty({ 1 << 19 }, tc.bfloat16), acc, floats(256, 2), 0.5, 1 << 17 }
      end,
   },
   {
      name = "matrix product in shared memory, f32",
      source = [[
extern "C" __global__ void run(float *c, const float *a, const float *b, int n)
{
   __shared__ float as[16][16], bs[16][16];
   int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, tiles = n / 16;
   int row = blockIdx.x / tiles * 16 + ty, column = blockIdx.x % tiles * 16 + tx;
   float sum = 0;
   for (int k = 0; k < n; k += 16) {
      as[ty][tx] = a[row * n + k + tx];
      bs[ty][tx] = b[(k + ty) * n + column];
      __syncthreads();
      for (int i = 0; i < 16; i++) sum += as[ty][i] * bs[i][tx];
      __syncthreads();
   }
   c[row * n + column] = sum;
}]],
      grid = 144,
      args = function() return { tc.empty({ 36864 }, tc.float32), floats(36864, 1), floats(36864, 2), 192 } end,
   },
   {
      name = "integer, float and shared memory",
      source = [[
extern "C" __global__ void run(const float *x, float *y, int n)
{
   int i = blockIdx.x * blockDim.x + threadIdx.x;
   __shared__ float s[256];
   float v = x[i];
   for (int k = 0; k < n; k++) {
      s[threadIdx.x] = v;
      __syncwarp();
      unsigned h = (unsigned)i * 2654435761u + (unsigned)k;
      h ^= h >> 13;
      v = fmaf(v, 0.999f, (float)(h & 255) * 0.001f) + s[threadIdx.x ^ 1] * 0.5f;
      __syncwarp();
      v = v > 100.0f ? v - 100.0f : v;
   }
   y[i] = v;
}]],
      args = function() return { floats(threads, 1), tc.empty({ threads }, tc.float32), 300 } end,
   },
   {
      name = "branches that lanes take apart",
      source = [[
extern "C" __global__ void run(int *out, int n)
{
   unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
   int steps = 0;
   for (unsigned x = i + 1; x != 1 && steps < n; steps++)
      if (x & 1) x = 3 * x + 1;
      else x >>= 1;
   out[i] = steps;
}]],
      args = function() return { tc.empty({ threads }, tc.int32), 300 } end,
   },
   {
      name = "64-bit integers and doubles",
      source = [[
extern "C" __global__ void run(double *out, const float *x, int n)
{
   int i = blockIdx.x * blockDim.x + threadIdx.x;
   unsigned long long s = i + 88172645463325252ull;
   double sum = x[i];
   for (int k = 0; k < n; k++) {
      s ^= s << 13;
      s ^= s >> 7;
      s ^= s << 17;
      sum = fma(sum, 0.5, (double)(long long)(s >> 11) * 0x1p-53);
   }
   out[i] = sum;
}]],
      args = function() return { tc.empty({ threads }, tc.float64), floats(threads, 1), 400 } end,
   },
   {
      name = "histogram by atomics in shared memory",
      source = [[
extern "C" __global__ void run(int *bins, const float *x, int n)
{
   __shared__ int local[256];
   local[threadIdx.x] = 0;
   __syncthreads();
   for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
      atomicAdd(&local[(int)(x[i] * 255.0f)], 1);
   __syncthreads();
   atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}]],
      args = function() return { tc.zeros({ 256 }, tc.int32), floats(1 << 20, 1), 1 << 20 } end,
   },
}
