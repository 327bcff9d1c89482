-- A grouped (ragged) matmul, as the experts of a mixture need it: the rows of A belong to groups of any
-- size, and each group has its own B. The kernel reads where the groups begin, and its CTAs share their
-- tiles. The last tile of a group may be ragged: of it only the rows of the group are stored, in pieces of
-- 64, 32, 16 ... rows.
local tc = require "tcmma"
local support = dofile((debug.getinfo(1, "S").source:match "^@(.*[/\\])" or "./") .. "support.lua")

local TM, TN, TK, STAGES, PIECE = 128, 128, 64, 4, 64

-- out[r] = a[r] (K) * b[group of r] (K, N). `bounds`, int32 (groups + 1), says where each group begins, and
-- last the number of rows; N in whole tiles.
local function build(rows, groups, N, K)
   local n_tiles, steps = N // TN, tc.cdiv(K, TK)
   local most = rows // TM + groups -- tiles of rows, however the rows are divided
   assert(N % TN == 0, "N in whole tiles")
   return tc.kernel {
      name = "matmul_grouped",
      args = { tc.gmem({ rows, K }, tc.float16), tc.gmem({ groups, K, N }, tc.float16),
         tc.gmem({ groups + 1 }, tc.int32), tc.gmem({ rows, N }, tc.float16) },
      grid = { math.max(1, math.min(132, most * n_tiles // 2)) }, grid_names = { "cta" },
      body = function(a, b, bounds, out)
         local a_smem = tc.smem({ STAGES, TM, TK }, tc.float16)
         local b_smem = tc.smem({ STAGES, TK, TN }, tc.float16)
         local out_smem = tc.smem({ 2, TM, PIECE }, tc.float16, { swizzle = "none" }) -- cut at any row
         local acc = tc.tmem({ TM, TN }, tc.float32)
         local loaded = tc.barrier { num_arrivals = 2, num_barriers = STAGES }
         local consumed = tc.barrier { num_barriers = STAGES, orders_tensor_core = true }
         local done, read = tc.barrier { orders_tensor_core = true }, tc.barrier { orders_tensor_core = true }
         local load, issue, store = tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 },
            tc.role { name = "epilogue", warpgroups = 1 }

         tc.nd_loop({ most, n_tiles }, function(item)
            local turn, n = item.local_index, item.index[2]
            -- The tile of rows is looked for along the groups: its group, its first row, the group's end.
            local left, group, first, last = item.index[1], -1, 0, 0
            for g = 0, groups - 1 do
               local begins, ends = bounds[g]:load(), bounds[g + 1]:load()
               local tiles = (ends - begins + (TM - 1)) // TM
               local mine = left:ge(0):land(left:lt(tiles))
               group, first = mine:select(g, group), mine:select(begins + left * TM, first)
               last = mine:select(ends, last)
               left = left - tiles
            end
            tc.when(group:ge(0), function()
               load(function()
                  tc.range(steps, function(k)
                     local at = turn * steps + k
                     local slot = at % STAGES
                     tc.when(at:ge(STAGES), function() tc.barrier_wait(consumed[slot]) end)
                     tc.copy_gmem_to_smem(a:at(tc.ds(first, TM), tc.ds(k * TK, TK)), a_smem[slot], loaded[slot])
                     tc.copy_gmem_to_smem(b[group]:tile({ k, n }, { TK, TN }), b_smem[slot], loaded[slot])
                  end)
               end)
               issue(function()
                  tc.when(turn:ge(1), function() tc.barrier_wait(read) end)
                  tc.range(steps, function(k)
                     local slot = (turn * steps + k) % STAGES
                     tc.barrier_wait(loaded[slot])
                     tc.mma(acc, a_smem[slot], b_smem[slot], { barrier = consumed[slot], accumulate = k:gt(0) })
                  end)
                  tc.commit_arrive(done)
               end)
               store(function()
                  local count = tc.min(last - first, TM)
                  tc.barrier_wait(done)
                  for i = 0, TN // PIECE - 1 do
                     local columns = tc.ds(n * TN + i * PIECE, PIECE)
                     local piece = tc.async_load_tmem(acc:at(tc.all, tc.ds(i * PIECE, PIECE)))
                     tc.wait_smem_to_gmem(0, { wait_read_only = true })
                     out_smem[i % 2]:store(piece:astype(tc.float16))
                     tc.commit_smem()
                     local size = TM
                     while size >= 1 do -- a Lua loop unrolls
                        local from = count // (2 * size) * (2 * size) -- rows stored by larger pieces
                        local height = size
                        tc.when((count & size):ne(0), function()
                           tc.copy_smem_to_gmem(out_smem[i % 2]:at(tc.ds(from, height), tc.all),
                              out:at(tc.ds(first + from, height), columns))
                        end)
                        size = size // 2
                     end
                  end
                  tc.barrier_arrive(read)
               end)
            end)
         end, { collective_axes = "cta" })
      end,
   }
end

-- Random groups, among them an empty one; row by row against the product in double precision.
local function run(rows, groups, N, K)
   local kernel = build(rows, groups, N, K)
   local cuts = { 0, rows }
   math.randomseed(7)
   for _ = 1, groups - 2 do cuts[#cuts + 1] = math.random(0, rows) end
   cuts[#cuts + 1] = cuts[#cuts] -- an empty group
   table.sort(cuts)
   local a, b = tc.randn({ rows, K }, tc.float16, { seed = 1 }), tc.randn({ groups, K, N }, tc.float16, { seed = 2 })
   local out = tc.full({ rows, N }, 77, tc.float16)
   kernel(a, b, tc.from_table(cuts, tc.int32), out)
   local a_rows, b_tables, got, ok, worst = a:totable(), b:totable(), out:totable(), true, 0
   for g = 1, groups do
      local mine = table.move(a_rows, cuts[g] + 1, cuts[g + 1], 1, {})
      if #mine > 0 then
         local part = tc.from_table(table.move(got, cuts[g] + 1, cuts[g + 1], 1, {}), tc.float16)
         local right, report = tc.allclose(part, tc.reference.matmul(tc.from_table(mine, tc.float16),
            tc.from_table(b_tables[g], tc.float16)), { rtol = 2e-3, atol = 2e-2 })
         ok, worst = ok and right, math.max(worst, report.max_abs_error)
      end
   end
   print(("15 grouped  %d rows in %d groups, N %d, K %d on %s: largest error %.2e: %s"):format(rows, groups, N, K,
      tc.device().name, worst, ok and "correct" or "WRONG"))
   return ok
end

if support.is_program() then
   local rows, groups = math.tointeger(arg[1] or 700), math.tointeger(arg[2] or 5)
   os.exit(run(rows, groups, 256, 256))
end
return build
