-- Classes on sm_90a: which roles run as one program, what they refuse, and ops that clones of 64 rows
-- do together, each for its rows, or one for all.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local modes = { "fast", "check", "random" }

local function refused(body, pattern)
   local fine, message = pcall(function()
      return tc.kernel {
         name = "refused", target = "sm_90a", grid = { 1 }, grid_names = { "x" }, body = body,
         args = { tc.gmem({ 128, 64 }, tc.float16), tc.gmem({ 64, 128 }, tc.float16),
            tc.gmem({ 128, 128 }, tc.float32) },
      }:ptx { target = "sm_90a" }
   end)
   assert.is_false(fine)
   assert.matches("^%S*class_spec%.lua:%d+: tc%.[%w_]+ does not run on sm_90a: ", message)
   assert.matches(pattern, message)
   assert.matches("What would fit: .", message)
   return message
end

-- Operands of two stages, barriers and three roles.
local function parts()
   return {
      a = tc.smem({ 2, 128, 64 }, tc.float16), b = tc.smem({ 2, 64, 128 }, tc.float16),
      loaded = tc.barrier { num_arrivals = 2, num_barriers = 2 },
      consumed = tc.barrier { num_barriers = 2, orders_tensor_core = true },
      done = tc.barrier { orders_tensor_core = true }, free = tc.barrier { orders_tensor_core = true },
      load = tc.role { name = "load", warps = 1 }, issue = tc.role { name = "mma", warps = 1 },
      store = tc.role { name = "epilogue", warpgroups = 1 },
   }
end

local function load_once(p, a, b)
   p.load(function()
      tc.copy_gmem_to_smem(a, p.a[0], p.loaded[0])
      tc.copy_gmem_to_smem(b, p.b[0], p.loaded[0])
   end)
end

describe("a class of roles", function()
   it("is one program of a warpgroup for each 64 rows", function()
      local text = kernels.matmul {}:dump("roles", { target = "sm_90a" })
      assert.matches("mma_epilogue%s+warps 0%-[37].-clones 2", text)
      assert.matches("load%s+warp 8", text)
   end)

   it("refuses loops over tiles of each role's own: rule (a)", function()
      local message = refused(function(a, b, out)
         local p, acc = parts(), tc.tmem({ 128, 128 }, tc.float32)
         p.load(function()
            tc.range(4, function(t)
               tc.when(t:ge(2), function() tc.barrier_wait(p.consumed[t % 2]) end)
               tc.copy_gmem_to_smem(a, p.a[t % 2], p.loaded[t % 2])
               tc.copy_gmem_to_smem(b, p.b[t % 2], p.loaded[t % 2])
            end)
         end)
         p.issue(function()
            tc.range(4, function(t)
               tc.when(t:gt(0), function() tc.barrier_wait(p.free) end)
               tc.barrier_wait(p.loaded[t % 2])
               tc.mma(acc, p.a[t % 2], p.b[t % 2], { accumulate = false, barrier = p.consumed[t % 2] })
               tc.commit_arrive(p.done)
            end)
         end)
         p.store(function()
            tc.range(4, function()
               tc.barrier_wait(p.done)
               out:store(tc.async_load_tmem(acc))
               tc.wait_load_tmem()
               tc.barrier_arrive(p.free)
            end)
         end)
      end, "rule %(a%)")
      assert.matches("tc%.barrier_wait", message)
      assert.matches("shared code", message)
   end)

   it("refuses a wait that stands before its arrival: rule (a)", function()
      refused(function(a, b, out)
         local p, acc = parts(), tc.tmem({ 128, 128 }, tc.float32)
         load_once(p, a, b)
         p.store(function()
            tc.barrier_wait(p.done)
            out:store(tc.async_load_tmem(acc))
         end)
         p.issue(function()
            tc.barrier_wait(p.loaded[0])
            tc.mma(acc, p.a[0], p.b[0], { accumulate = false })
            tc.commit_arrive(p.done)
         end)
      end, "rule %(a%)")
   end)

   it("refuses recorded columns, and slots under several names: rule (b)", function()
      local function body(slot_of_mma, slot_of_load, columns)
         return function(a, b, out)
            local p, acc = parts(), tc.tmem({ 2, 128, 128 }, tc.float32)
            load_once(p, a, b)
            tc.range(4, function(t)
               p.issue(function()
                  tc.when(t:eq(0), function() tc.barrier_wait(p.loaded[0]) end)
                  tc.mma(acc[slot_of_mma(t)], p.a[0], p.b[0], { accumulate = false })
                  tc.commit_arrive(p.done)
               end)
               p.store(function()
                  tc.barrier_wait(p.done)
                  local c = columns(t)
                  out:at(tc.all, c):store(tc.async_load_tmem(acc[slot_of_load(t)]:at(tc.all, c)))
               end)
            end)
         end
      end
      local function this(t) return t % 2 end
      local function whole() return tc.ds(0, 128) end
      refused(body(this, function(t) return (t + 1) % 2 end, whole), "one value.-rule %(b%)")
      refused(body(this, function() return 0 end, whole), "one value.-rule %(b%)")
      refused(body(this, this, function(t) return tc.ds(t % 2 * 64, 64) end), "recorded value.-rule %(b%)")
   end)

   it("refuses a slot that is loaded before it is overwritten: rule (b)", function()
      refused(function(a, b, out)
         local p, acc = parts(), tc.tmem({ 2, 128, 128 }, tc.float32)
         load_once(p, a, b)
         tc.range(4, function(t)
            p.store(function()
               tc.when(t:gt(0), function()
                  tc.barrier_wait(p.done)
                  out:store(tc.async_load_tmem(acc[t % 2]))
               end)
            end)
            p.issue(function()
               tc.when(t:eq(0), function() tc.barrier_wait(p.loaded[0]) end)
               tc.mma(acc[t % 2], p.a[0], p.b[0], { accumulate = false })
               tc.commit_arrive(p.done)
            end)
         end)
         p.store(function() tc.barrier_wait(p.done) end)
      end, "earlier iteration.-rule %(b%)")
   end)

   it("refuses more accumulators than registers: rule (c)", function()
      local message = refused(function(a, b, out)
         local p = parts()
         local accs = { tc.tmem({ 128, 128 }, tc.float32), tc.tmem({ 128, 128 }, tc.float32),
            tc.tmem({ 128, 128 }, tc.float32), tc.tmem({ 128, 128 }, tc.float32) }
         load_once(p, a, b)
         p.issue(function()
            tc.barrier_wait(p.loaded[0])
            for _, acc in ipairs(accs) do tc.mma(acc, p.a[0], p.b[0], { accumulate = false }) end
            tc.commit_arrive(p.done)
         end)
         p.store(function()
            tc.barrier_wait(p.done)
            for _, acc in ipairs(accs) do out:store(tc.async_load_tmem(acc)) end
         end)
      end, "256 registers.-rule %(c%)")
      assert.matches("  64: TMEM ref, float32 %(128, 128%)", message)
   end)

   it("refuses what wgmma does not multiply: rule (e)", function()
      local function body(rows, dtype, transposed)
         return function(_, _, out)
            local p, acc = parts(), tc.tmem({ 128, 128 }, tc.float32)
            local other = tc.tmem({ rows, 128 }, tc.float32)
            local x, y = tc.smem({ rows, 128 }, dtype), tc.smem({ 128, 128 }, dtype)
            p.issue(function()
               tc.mma(acc, p.a[0], p.b[0], { accumulate = false })
               tc.mma(other, x, transposed and y:T() or y, { accumulate = false })
               tc.commit_arrive(p.done)
            end)
            p.store(function()
               tc.barrier_wait(p.done)
               out:store(tc.async_load_tmem(acc))
               tc.async_load_tmem(other)
            end)
         end
      end
      refused(body(128, tc.e4m3, false), "16%-bit elements only.-rule %(e%)")
      refused(body(64, tc.float16, false), "64 rows.-rule %(e%)")
   end)

   it("holds set_max_registers to what the block was launched with", function()
      local fine, message = pcall(function()
         return tc.kernel {
            name = "registers", target = "sm_90a", grid = { 1 }, grid_names = { "x" },
            args = { tc.gmem({ 128, 64 }, tc.float16), tc.gmem({ 64, 128 }, tc.float16),
               tc.gmem({ 128, 128 }, tc.float32) },
            body = function(a, b, out)
               local p, acc = parts(), tc.tmem({ 128, 128 }, tc.float32)
               load_once(p, a, b)
               p.issue(function()
                  tc.barrier_wait(p.loaded[0])
                  tc.mma(acc, p.a[0], p.b[0], { accumulate = false })
                  tc.commit_arrive(p.done)
               end)
               p.store(function()
                  tc.set_max_registers(240)
                  tc.barrier_wait(p.done)
                  out:store(tc.async_load_tmem(acc))
               end)
            end,
         }:ptx { target = "sm_90a" }
      end)
      assert.is_false(fine)
      assert.matches("384 threads, each launched with 168", message)
   end)
end)

-- One role: out = epilogue(a * b) with a of (m, 64) and b of (64, 64).
local function product(m, outputs, epilogue, mode)
   local args = { tc.gmem({ m, 64 }, tc.float16), tc.gmem({ 64, 64 }, tc.float16) }
   local arrays = { kernels.integers({ m, 64 }, tc.float16, 1), kernels.integers({ 64, 64 }, tc.float16, 2) }
   for _, o in ipairs(outputs) do
      args[#args + 1] = tc.gmem(o[1], o[2])
      arrays[#arrays + 1] = tc.zeros(o[1], o[2])
   end
   local kernel = tc.kernel {
      name = "product", target = "sm_90a", args = args, grid = { 1 }, grid_names = { "x" },
      body = function(a, b, ...)
         local a_smem, b_smem = tc.smem({ m, 64 }, tc.float16), tc.smem({ 64, 64 }, tc.float16)
         local acc = tc.tmem({ m, 64 }, tc.float32)
         local loaded, done = tc.barrier { num_arrivals = 2 }, tc.barrier { orders_tensor_core = true }
         tc.copy_gmem_to_smem(a, a_smem, loaded)
         tc.copy_gmem_to_smem(b, b_smem, loaded)
         tc.barrier_wait(loaded)
         tc.mma(acc, a_smem, b_smem, { accumulate = false })
         tc.commit_arrive(done)
         tc.barrier_wait(done)
         epilogue(acc, ...)
      end,
   }
   kernels.run(kernel, { target = "sm_90a", mode = mode }, table.unpack(arrays))
   return tc.reference.matmul(arrays[1], arrays[2]):totable(), table.unpack(arrays, 3)
end

for _, m in ipairs { 64, 128, 192 } do
   describe(("clones of an accumulator of %d rows"):format(m), function()
      it("store it transposed", function()
         for _, mode in ipairs(modes) do
            local expected, out = product(m, { { { 64, m }, tc.float16 } }, function(acc, out)
               local tile = tc.smem({ 64, m }, tc.float16)
               tile:T():store(tc.async_load_tmem(acc):astype(tc.float16))
               tc.commit_smem()
               tc.copy_smem_to_gmem(tile, out)
               tc.wait_smem_to_gmem(0)
            end, mode)
            for column, row in ipairs(out:totable()) do
               for i, x in ipairs(row) do assert.are.equal(expected[i][column], x) end
            end
         end
      end)

      it("reduce along rows and columns", function()
         for _, mode in ipairs(modes) do
            local expected, sums, most = product(m, { { { m }, tc.float32 }, { { 64 }, tc.float32 } },
               function(acc, sums, most)
                  local tile = tc.async_load_tmem(acc)
                  local vector = tc.smem({ m }, tc.float32)
                  vector:store(tile:reduce("sum", 1))
                  tc.commit_smem()
                  tc.copy_smem_to_gmem(vector, sums)
                  most:store(tile:reduce("max", 0))
                  tc.wait_smem_to_gmem(0)
               end, mode)
            local largest = {}
            for i, row in ipairs(expected) do
               local sum = 0
               for j, x in ipairs(row) do
                  sum = sum + x
                  largest[j] = math.max(largest[j] or x, x)
               end
               assert.are.equal(sum, sums:get(i - 1))
            end
            assert.are.same(largest, most:totable())
         end
      end)

      it("load back what they stored, and store constants and scalars once", function()
         for _, mode in ipairs(modes) do
            local expected, out, count = product(m, { { { m, 64 }, tc.float16 }, { { 2 }, tc.int32 } },
               function(acc, out, count)
                  local constant, tile = tc.smem({ m, 64 }, tc.float16), tc.smem({ m, 64 }, tc.float16)
                  constant:store(tc.full({ m, 64 }, 2, tc.float16))
                  tile:store(tc.async_load_tmem(acc):astype(tc.float16))
                  tc.commit_smem()
                  tile:store(constant:load() + tile:load())
                  tc.commit_smem()
                  tc.copy_smem_to_gmem(tile, out)
                  count:at(1):store(count:at(1):load() + 7)
                  tc.wait_smem_to_gmem(0)
               end, mode)
            for i, row in ipairs(out:totable()) do
               for j, x in ipairs(row) do assert.are.equal(expected[i][j] + 2, x) end
            end
            assert.are.same({ 0, 7 }, count:totable())
         end
      end)

      it("keep a tile that the next mma overwrites", function()
         for _, mode in ipairs(modes) do
            local expected, out = product(m, { { { m, 64 }, tc.float32 } }, function(acc, out)
               local first = tc.async_load_tmem(acc)
               tc.wait_load_tmem()
               local x, y = tc.smem({ m, 64 }, tc.float16), tc.smem({ 64, 64 }, tc.float16)
               x:store(tc.full({ m, 64 }, 0, tc.float16))
               y:store(tc.full({ 64, 64 }, 0, tc.float16))
               tc.commit_smem()
               local again = tc.barrier { orders_tensor_core = true }
               tc.mma(acc, x, y, { accumulate = false })
               tc.commit_arrive(again)
               tc.barrier_wait(again)
               out:store(first + tc.async_load_tmem(acc))
            end, mode)
            assert.are.same(expected, out:totable())
         end
      end)
   end)
end

-- S = Q K^T, P = relu(S) through tensor memory, O = O + P V, over blocks of K and V.
local function attention(m, width, depth, blocks, dtype)
   return tc.kernel {
      name = "attention", target = "sm_90a", grid = { 1 }, grid_names = { "x" },
      args = { tc.gmem({ m, depth }, dtype), tc.gmem({ width * blocks, depth }, dtype),
         tc.gmem({ width * blocks, depth }, dtype), tc.gmem({ m, depth }, tc.float32) },
      body = function(q, k, v, out)
         local q_smem = tc.smem({ m, depth }, dtype)
         local k_smem, v_smem = tc.smem({ 2, width, depth }, dtype), tc.smem({ 2, width, depth }, dtype)
         local scores, result = tc.tmem({ m, width }, tc.float32), tc.tmem({ m, depth }, tc.float32)
         local weights = tc.tmem({ m, width }, dtype, { packed = true })
         local q_loaded = tc.barrier {}
         local loaded = tc.barrier { num_arrivals = 2, num_barriers = 2 }
         local freed = tc.barrier { num_barriers = 2, orders_tensor_core = true }
         local scored, weighted, done = tc.barrier { orders_tensor_core = true },
            tc.barrier { orders_tensor_core = true }, tc.barrier { orders_tensor_core = true }
         local load, mma, soft = tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 },
            tc.role { name = "weigh", warpgroups = 1 }
         load(function() tc.copy_gmem_to_smem(q, q_smem, q_loaded) end)
         mma(function() tc.barrier_wait(q_loaded) end)
         tc.range(blocks, function(i)
            local s = i % 2
            load(function()
               tc.when(i:ge(2), function() tc.barrier_wait(freed[s]) end)
               tc.copy_gmem_to_smem(k:tile({ i, 0 }, { width, depth }), k_smem[s], loaded[s])
               tc.copy_gmem_to_smem(v:tile({ i, 0 }, { width, depth }), v_smem[s], loaded[s])
            end)
            mma(function()
               tc.barrier_wait(loaded[s])
               tc.mma(scores, q_smem, k_smem[s]:T(), { accumulate = false })
               tc.commit_arrive(scored)
            end)
            soft(function()
               tc.barrier_wait(scored)
               tc.async_store_tmem(weights, tc.max(tc.async_load_tmem(scores), 0):astype(dtype))
               tc.commit_tmem()
               tc.barrier_arrive(weighted)
            end)
            mma(function()
               tc.barrier_wait(weighted)
               tc.mma(result, weights, v_smem[s], { barrier = freed[s], accumulate = i:gt(0) })
            end)
         end)
         mma(function() tc.commit_arrive(done) end)
         soft(function()
            tc.barrier_wait(done)
            for c = 0, depth - 1, 64 do
               local columns = tc.ds(c, 64)
               out:at(tc.all, columns):store(tc.async_load_tmem(result:at(tc.all, columns)))
            end
         end)
      end,
   }
end

describe("A in tensor memory", function()
   it("is stored by the class and multiplied from registers", function()
      for _, mode in ipairs(modes) do
         for _, o in ipairs { { 128, 64, 64, 5, tc.float16 }, { 64, 128, 128, 3, tc.bfloat16 } } do
            local m, width, depth, blocks, dtype = table.unpack(o)
            local kernel = attention(m, width, depth, blocks, dtype)
            local function integers(rows, seed)
               return tc.randint({ rows, depth }, dtype, { low = -1, high = 2, seed = seed })
            end
            local q, k, v = integers(m, 1), integers(width * blocks, 2), integers(width * blocks, 3)
            local out = tc.zeros({ m, depth }, tc.float32)
            kernels.run(kernel, { target = "sm_90a", mode = mode, numerics = "f32" }, q, k, v, out)
            local weights = tc.reference.matmul(q, k, { transpose_b = true, relu = true })
            assert.are.equal(0, (tc.max_error(out, tc.reference.matmul(weights, v))))
            assert.matches("wgmma%.mma_async%S+ %b{}, %b{}, %%rd", kernel:ptx { target = "sm_90a" })
            local info = kernel:info { target = "sm_90a" }
            if not info.assembler_missing then
               assert.are.equal(0, info.spill_stores)
               assert.not_matches("%(C75", info.log)
            end
         end
      end
   end)

   it("is copied from SMEM by ldmatrix", function()
      for _, dtype in ipairs { tc.float16, tc.bfloat16, tc.e4m3, tc.i8 } do
         for _, swizzle in ipairs { 32, 64, 128 } do
            local acc_dtype = dtype == tc.i8 and tc.int32 or tc.float32
            local kernel = tc.kernel {
               name = "copied", target = "sm_90a", grid = { 1 }, grid_names = { "x" },
               args = { tc.gmem({ 128, 128 }, dtype), tc.gmem({ 64, 128 }, dtype), tc.gmem({ 128, 64 }, acc_dtype) },
               body = function(a, b, out)
                  local a_smem = tc.smem({ 128, 128 }, dtype, { swizzle = swizzle })
                  local b_smem = tc.smem({ 64, 128 }, dtype)
                  local left = tc.tmem({ 128, 128 }, dtype, { packed = true })
                  local acc = tc.tmem({ 128, 64 }, acc_dtype)
                  local loaded, done = tc.barrier { num_arrivals = 2 }, tc.barrier { orders_tensor_core = true }
                  tc.copy_gmem_to_smem(a, a_smem, loaded)
                  tc.copy_gmem_to_smem(b, b_smem, loaded)
                  tc.barrier_wait(loaded)
                  tc.async_copy_smem_to_tmem(a_smem, left)
                  tc.mma(acc, left, b_smem:T(), { accumulate = false })
                  tc.commit_arrive(done)
                  tc.barrier_wait(done)
                  out:store(tc.async_load_tmem(acc))
               end,
            }
            local a, b = kernels.integers({ 128, 128 }, dtype, 1), kernels.integers({ 64, 128 }, dtype, 2)
            local out = tc.zeros({ 128, 64 }, acc_dtype)
            kernels.run(kernel, { target = "sm_90a" }, a, b, out)
            assert.are.equal(0, (tc.max_error(out, tc.reference.matmul(a, b, { transpose_b = true }))))
         end
      end
   end)
end)
