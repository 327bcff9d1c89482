-- Speed of the emulator on one core, mode fast:
--   lua bench/emulator.lua [part of a name] [runs]
-- The shortest of the runs counts: whatever else the machine does only adds to it.
local tc = require "tcmma"

local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local kernels = dofile(here .. "emulator_kernels.lua")

local wanted, runs = arg and arg[1] or "", tonumber(arg and arg[2]) or 7

local function row(what, fmt, ...)
   print(("%-58s %s"):format(what, fmt:format(...)))
end

local function shortest(f)
   local best = math.huge
   for _ = 1, runs do
      local start = os.clock()
      f()
      best = math.min(best, os.clock() - start)
   end
   return best
end

local function rate(case)
   local module, why = tc.cuda(case.source, { target = "sm_90a" })
   if not module then return row(case.name, "not run: %s", why) end
   local args, kernel, report = case.args(), module:kernel "run", nil
   local seconds = shortest(function()
      report = kernel:emulate { grid = { case.grid or 32 }, block = { 256 }, args = args, mode = "fast" }
   end)
   local count = report.counters.warp_instructions
   row("CUDA C, " .. case.name, "%.1f M warp-instructions/s of %.2f M", count / seconds / 1e6, count / 1e6)
end

tc.device("emulator:sm_90a"):use()
for _, case in ipairs(kernels) do
   if ("CUDA C, " .. case.name):find(wanted, 1, true) then rate(case) end
end

-- ---- multiplications ----------------------------------------------------------------------------

-- One tile after the other through three roles, the operands K innermost.
local function matmul(dtype, acc, n, tile)
   local tm, tn, tk, stages, piece = 128, tile, 1024 // dtype.bits, 2, math.min(64, tile)
   local out_type = acc == tc.int32 and tc.int32 or tc.float16
   if acc == tc.int32 then piece = math.min(32, tile) end
   local steps = n // tk
   return tc.kernel {
      name = "matmul", args = { tc.gmem({ n, n }, dtype), tc.gmem({ n, n }, dtype), tc.gmem({ n, n }, out_type) },
      grid = { n // tm, n // tn }, grid_names = { "m", "n" },
      body = function(a, b, out)
         local m, column = tc.axis_index "m", tc.axis_index "n"
         local a_smem, b_smem = tc.smem({ stages, tm, tk }, dtype), tc.smem({ stages, tn, tk }, dtype)
         local narrow = acc == tc.float16 and { packed = false } or nil
         local sum, out_smem = tc.tmem({ tm, tn }, acc, narrow), tc.smem({ tm, piece }, out_type)
         local loaded = tc.barrier { num_arrivals = 2, num_barriers = stages }
         local consumed = tc.barrier { num_barriers = stages, orders_tensor_core = true }
         local done = tc.barrier { orders_tensor_core = true }
         tc.role { name = "load", warps = 1 }(function()
            tc.range(steps, function(k)
               local slot = k % stages
               tc.when(k:ge(stages), function() tc.barrier_wait(consumed[slot]) end)
               tc.copy_gmem_to_smem(a:tile({ m, k }, { tm, tk }), a_smem[slot], loaded[slot])
               tc.copy_gmem_to_smem(b:tile({ column, k }, { tn, tk }), b_smem[slot], loaded[slot])
            end)
         end)
         tc.role { name = "mma", warps = 1 }(function()
            tc.range(steps, function(k)
               local slot = k % stages
               tc.barrier_wait(loaded[slot])
               tc.mma(sum, a_smem[slot], b_smem[slot]:T(), { barrier = consumed[slot], accumulate = k:gt(0) })
            end)
            tc.commit_arrive(done)
         end)
         tc.role { name = "epilogue", warpgroups = 1 }(function()
            tc.barrier_wait(done)
            for i = 0, tn // piece - 1 do
               tc.wait_smem_to_gmem(0)
               out_smem:store(tc.async_load_tmem(sum:at(tc.all, tc.ds(i * piece, piece))):astype(out_type))
               tc.commit_smem()
               tc.copy_smem_to_gmem(out_smem, out:tile({ m, column * (tn // piece) + i }, { tm, piece }))
            end
            tc.wait_smem_to_gmem(0)
         end)
      end,
   }
end

local function operand(n, dtype, seed)
   if dtype == tc.int8 then return tc.randint({ n, n }, dtype, { low = -100, high = 100, seed = seed }) end
   return tc.randn({ n, n }, dtype, { seed = seed })
end

-- `make`: the kernel and its arrays.
local function product(what, options, make)
   if not what:find(wanted, 1, true) then return end
   local kernel, a, b, out = make()
   local report
   options.mode = "fast"
   local seconds = shortest(function() report = kernel:emulate(options, a, b, out) end)
   row(what, "%.1f ms, %.1f GFLOP/s of MMA", seconds * 1e3, report.counters.mma_flops / seconds / 1e9)
end

local kinds = {
   { "f16", tc.float16, tc.float32 }, { "bf16", tc.bfloat16, tc.float32 }, { "tf32", tc.float32, tc.float32 },
   { "e4m3", tc.float8_e4m3fn, tc.float32 }, { "s8", tc.int8, tc.int32 }, { "f16, D f16", tc.float16, tc.float16 },
}

local function ladder(n)
   return dofile(here .. "../examples/04_matmul_tiled_epilogue.lua")(n, n, n), operand(n, tc.float16, 1),
      operand(n, tc.float16, 2), tc.empty({ n, n }, tc.float16)
end

local function products(target, n)
   tc.device("emulator:" .. target):use()
   local function make() return ladder(n) end
   product(("%s %d^3, f16, B N innermost"):format(target, n), {}, make)
   product(("%s %d^3, f16, numerics hardware"):format(target, n), { numerics = "hardware" }, make)
   for _, kind in ipairs(kinds) do
      local name, dtype, acc = table.unpack(kind)
      for _, tile in ipairs { 256, 64, 16 } do
         product(("%s %d^3, %s, tiles of 128 x %d"):format(target, n, name, tile), {}, function()
            return matmul(dtype, acc, n, tile), operand(n, dtype, 1), operand(n, dtype, 2),
               tc.empty({ n, n }, acc == tc.int32 and acc or tc.float16)
         end)
      end
   end
end

for _, target in ipairs { "sm_90a", "sm_100a" } do
   products(target, 512)
   tc.device("emulator:" .. target):use()
   product(target .. " 1024^3, f16, B N innermost", {}, function() return ladder(1024) end)
end

-- ---- instructions whose operands are registers -----------------------------------------------------

local function list(format, count, from)
   local names = {}
   for i = 1, count do names[i] = format:format(from + i - 1) end
   return "{" .. table.concat(names, ",") .. "}"
end

local function zeros()
   local lines = {}
   for i = 0, 138 do lines[#lines + 1] = ("   mov.b32 %%r%d, 0; mov.b32 %%f%d, 0f00000000;"):format(i, i) end
   return table.concat(lines, "\n")
end

-- Sixteen of them in a loop of 64; operands are zero.
local function registers(what, instruction, warps)
   if not what:find(wanted, 1, true) then return end
   local text = ([[
.version 8.6
.target sm_90a
.address_size 64
.visible .entry run()
{
   .reg .pred %%p<2>;
   .reg .b32 %%r<140>;
   .reg .f32 %%f<140>;
   .reg .b64 %%d;
   .shared .align 1024 .b8 tile[16384];
%s
   mov.b32 %%r139, tile; // 8 columns follow one another, 16 bytes of K lie apart
   shr.u32 %%r139, %%r139, 4;
   cvt.u64.u32 %%d, %%r139;
   or.b64 %%d, %%d, %d;
   mov.b32 %%r139, 0;
LOOP:
%s
   add.u32 %%r139, %%r139, 1;
   setp.lt.u32 %%p1, %%r139, 64;
   @%%p1 bra LOOP;
   ret;
}]]):format(zeros(), 512 << 16 | 8 << 32, (instruction .. "\n"):rep(16))
   local kernel, report = tc.ptx(text):kernel "run", nil
   local seconds = shortest(function()
      report = kernel:emulate { grid = { 2 }, block = { 32 * warps }, args = {}, mode = "fast" }
   end)
   assert(report.completed, tostring(report))
   row(what, "%.1f GFLOP/s of MMA", report.counters.mma_flops / seconds / 1e9)
end

tc.device("emulator:sm_90a"):use()
for _, form in ipairs {
   { "m16n8k16", "f32.f16.f16.f32" }, { "m16n8k16", "f32.bf16.bf16.f32" }, { "m16n8k8", "f32.tf32.tf32.f32" },
   { "m16n8k32", "f32.e4m3.e4m3.f32" }, { "m16n8k32", "s32.s8.s8.s32" },
} do
   local shape, types = table.unpack(form)
   local d = list(types:find "^s32" and "%%r%d" or "%%f%d", 4, 10)
   local instruction = ("   mma.sync.aligned.%s.row.col.%s %s, %s, %s, %s;"):format(shape, types, d,
      list("%%r%d", 4, 0), list("%%r%d", 2, 4), d)
   registers("mma.sync " .. shape .. "." .. types, instruction, 4)
end
for _, n in ipairs { 256, 64 } do
   registers(("wgmma m64n%dk16 f16, A in registers"):format(n), ([[
   wgmma.fence.sync.aligned;
   wgmma.mma_async.sync.aligned.m64n%dk16.f32.f16.f16 %s, %s, %%d, 1, 1, 1, 0;
   wgmma.commit_group.sync.aligned;
   wgmma.wait_group.sync.aligned 0;]]):format(n, list("%%f%d", n // 2, 0), list("%%r%d", 4, 0)), 4)
end
