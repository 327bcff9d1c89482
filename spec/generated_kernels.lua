-- A seeded generator of matmul kernels. A kernel is drawn as a table of features; from it comes the
-- text of a script on the public interface, which is what runs (generated_run.lua).
--
-- Inputs are integers, small enough that every partial sum is exact whatever the order of the sums:
-- results are then the same on every device, and those of exact arithmetic rounded once.
local features = require "generated_features"

local M = {}

M.targets, M.forms, M.draw = features.targets, features.forms, features.draw

local function ceil(a, b) return (a + b - 1) // b end

local function option(condition, text) return condition and text or "" end

-- Names of the arguments after the output, in order.
local function extras(o)
   local names = {}
   if o.form == "two" then names[1] = "b2" end
   if o.form == "preloaded" then names[1] = "initial" end
   for _, name in ipairs { "row_scale", "bias", "residual" } do
      if o[name] then names[#names + 1] = name end
   end
   return names
end

local shapes = {
   a = function(o) return o.a_transposed and "K, M" or "M, K" end,
   b = function(o) return o.b_transposed and "N, K" or "K, N" end,
   out = function() return "M, N" end,
   residual = function() return "M, N" end,
   initial = function() return "M, N" end,
   bias = function() return "N" end,
   row_scale = function() return "M" end,
}

shapes.b2 = shapes.b

local function dtype_of(o, name)
   local types = { a = o.dtype, b = o.dtype_b, b2 = o.dtype_b, out = o.out, initial = o.acc }
   return types[name] or "f32"
end

local function all_arguments(o)
   return { "a", "b", "out", table.unpack(extras(o)) }
end

local function grid(o)
   if o.form == "persistent" or o.form == "double" then return ("{ %d }"):format(o.ctas), '{ "cta" }' end
   local counts = "{ TILES_M, TILES_N }"
   if o.named then counts = "function(dims) return { tc.cdiv(dims.M, TM), tc.cdiv(dims.N, TN) } end" end
   return counts, '{ "m", "n" }'
end

local function header(o)
   local args = {}
   for i, name in ipairs(all_arguments(o)) do
      local shape = shapes[name](o)
      if o.named then shape = shape:gsub("%u", '"%0"') end
      args[i] = ('tc.gmem({ %s }, "%s")'):format(shape, dtype_of(o, name))
   end
   local counts, names = grid(o)
   return ([[
local tc = require "tcmma"
local M, N, K = %d, %d, %d
local TM, TN, TK, STAGES, PIECE = %d, %d, %d, %d, %d
local STEPS, PIECES = (K + TK - 1) // TK, TN // PIECE
local TILES_M, TILES_N = tc.cdiv(M, %sTM), tc.cdiv(N, %sTN)

local kernel = tc.kernel {
   name = "generated", target = "%s",
   args = { %s },
   grid = %s, grid_names = %s,%s
   body = function(%s)
]]):format(o.m, o.n, o.k, o.tm, o.tn, o.tk, o.stages, o.piece,
      option(o.cluster == "rows", "2 * "), option(o.cluster == "columns", "2 * "), o.target,
      table.concat(args, ", "), counts, names, option(o.cluster, ' cluster = { 2 }, cluster_names = { "rank" },'),
      table.concat(all_arguments(o), ", "))
end

local function allocations(o)
   local slots = o.form == "double" and 2 or 1
   local lines = {
      ('local a_smem = tc.smem({ STAGES, %s }, "%s", { swizzle = %d })'):format(
         o.a_transposed and "TK, TM" or "TM, TK", o.dtype, o.a_swizzle),
      ('local b_smem = tc.smem({ STAGES, %s }, "%s", { swizzle = %d })'):format(
         o.b_transposed and "TN, TK" or "TK, TN", o.dtype_b, o.b_swizzle),
      ('local acc = tc.tmem({ %sTM, TN }, "%s"%s)'):format(option(slots == 2, "2, "), o.acc,
         option(o.acc == "f16", ", { packed = false }")),
      option(o.form == "registers", ('local a_tmem = tc.tmem({ TM, TK }, "%s", { packed = true })'):format(o.dtype)),
      option(o.store == "tma", ('local out_smem = tc.smem({ 2, TM, PIECE }, "%s", { swizzle = %s })'):format(o.out,
         tonumber(o.out_swizzle) or '"none"')),
      ("local loaded = tc.barrier { num_arrivals = %d, num_barriers = STAGES }"):format(o.form == "two" and 3 or 2),
      ("local consumed = tc.%s num_barriers = STAGES, orders_tensor_core = true }"):format(
         o.cluster and 'cluster_barrier { collective_axes = "rank",' or "barrier {"),
      ("local done = tc.barrier { num_barriers = %d, orders_tensor_core = true }"):format(slots),
   }
   if o.form == "two" then -- a second B and its accumulator
      for i = 2, 3 do lines[#lines + 1] = lines[i]:gsub("b_smem", "b2_smem"):gsub("acc =", "acc2 =") end
   end
   return lines
end

local function helpers(o)
   local left = o.form == "registers" and "a_tmem" or o.a_transposed and "a_smem[slot]:T()" or "a_smem[slot]"
   local lines = {
      "local function fill(m, n, k, slot)",
      ("   tc.copy_gmem_to_smem(a:tile(%s), a_smem[slot], loaded[slot]%s)"):format(
         o.a_transposed and "{ k, m }, { TK, TM }" or "{ m, k }, { TM, TK }",
         option(o.cluster == "columns", ', { collective_axes = "rank" }')),
      ("   tc.copy_gmem_to_smem(b:tile(%s), b_smem[slot], loaded[slot]%s)"):format(
         o.b_transposed and "{ n, k }, { TN, TK }" or "{ k, n }, { TK, TN }",
         option(o.cluster == "rows", ', { collective_axes = "rank" }')),
   }
   local function line(text) if text ~= "" then lines[#lines + 1] = text end end
   local two = o.form == "two"
   line(option(two, lines[3]:gsub("b:", "b2:"):gsub("b_smem", "b2_smem")))
   line "end"
   line "local function multiply(into, k, slot)"
   line(      ("   local left, right = %s, %s"):format(left, o.b_transposed and "b_smem[slot]:T()" or "b_smem[slot]"))
   local function add(text, ...) lines[#lines + 1] = "   " .. text:format(...) end
   local barrier = option(not o.commit, "barrier = consumed[slot], ")
   local accumulate = o.form == "preloaded" and "true" or o.form == "promoted" and "false" or "k:gt(0)"
   local function mma(into, right, with_barrier)
      if o.halves then
         add("tc.mma(%s, left:at(tc.all, low), %s:at(low, tc.all), { accumulate = %s })", into, right, accumulate)
         add("tc.mma(%s, left:at(tc.all, high), %s:at(high, tc.all), { %saccumulate = true })", into, right,
            with_barrier)
      else
         add("tc.mma(%s, left, %s, { %saccumulate = %s })", into, right, with_barrier, accumulate)
      end
   end
   if o.halves then add "local low, high = tc.ds(0, TK // 2), tc.ds(TK // 2, TK // 2)" end
   if two then mma("acc2", (o.b_transposed and "b2_smem[slot]:T()" or "b2_smem[slot]"), "") end
   mma("into", "right", barrier)
   if o.commit then add "tc.commit_arrive(consumed[slot])" end
   lines[#lines + 1] = "end"
   return lines
end

-- The accumulator to the output, a piece at a time.
local function epilogue(o)
   local lines = { "local function store(from, m, n)", "   for i = 0, PIECES - 1 do" }
   local function add(text) if text ~= "" then lines[#lines + 1] = "      " .. text end end
   add("local column = n * PIECES + i")
   local from = o.piece == o.tn and "from" or "from:at(tc.all, tc.ds(i * PIECE, PIECE))"
   add(("local x = tc.async_load_tmem(%s)%s"):format(from, option(o.acc == "f16", ':astype "f32"')))
   if o.form == "two" then
      local converted = option(o.acc == "f16", ':astype "f32"')
      add(("x = x + tc.async_load_tmem(%s)%s * 2"):format(from:gsub("from", "acc2"), converted))
   end
   if o.form == "promoted" then lines[#lines] = "      local x = from" end
   add(option(o.scale, "x = x * 2"))
   add(option(o.row_scale, "x = x * row_scale:tile({ m }, { TM }):load():broadcast({ TM, PIECE }, 1)"))
   add(option(o.bias, "x = x + bias:tile({ column }, { PIECE }):load()"))
   add(option(o.residual, "x = x + residual:tile({ m, column }, { TM, PIECE }):load()"))
   add(option(o.relu, "x = tc.max(x, 0)"))
   local value = (o.integer or o.out == "f32") and "x" or ('x:astype "%s"'):format(o.out)
   if o.store == "gmem" then
      add(("out:tile({ m, column }, { TM, PIECE }):store(%s)"):format(value))
   elseif o.store == "atomic" then
      add(("tc.atomic_add(out:tile({ m, column }, { TM, PIECE }), %s)"):format(value))
   else
      -- Tiles that follow each other begin with buffer 0: with an odd number of pieces it was the last one, too.
      local loop = o.form == "persistent" or o.form == "double"
      add(("tc.wait_smem_to_gmem(%d%s)"):format(loop and o.tn // o.piece % 2 == 1 and 0 or 1,
         option(o.read_only, ", { wait_read_only = true }")))
      add(("out_smem[i %% 2]:store(%s)"):format(value))
      add("tc.commit_smem()")
      add("tc.copy_smem_to_gmem(out_smem[i % 2], out:tile({ m, column }, { TM, PIECE }))")
   end
   lines[#lines + 1] = "   end"
   lines[#lines + 1] = "end"
   return lines
end

local forms = {}

local finish = "tc.wait_smem_to_gmem(0)"

-- No roles: one program fills, multiplies and stores.
function forms.plain(o)
   local lines = { 'local m, n = tc.axis_index "m", tc.axis_index "n"' }
   local function add(text) lines[#lines + 1] = text end
   if o.stages == 1 then
      add [[
tc.range(STEPS, function(k)
   tc.when(k:gt(0), function() tc.barrier_wait(consumed[0]) end)
   fill(m, n, k, 0)
   tc.barrier_wait(loaded[0])
   multiply(acc, k, 0)
end)]]
   else
      add [[
for k = 0, math.min(STAGES - 1, STEPS) - 1 do fill(m, n, k, k) end
tc.range(STEPS, function(k)
   local slot, ahead = k % STAGES, k + (STAGES - 1)
   tc.barrier_wait(loaded[slot])
   multiply(acc, k, slot)
   tc.when(ahead:lt(STEPS), function()
      tc.when(k:gt(0), function() tc.barrier_wait(consumed[ahead % STAGES]) end)
      fill(m, n, ahead, ahead % STAGES)
   end)
end)]]
   end
   add "tc.commit_arrive(done)"
   add "tc.barrier_wait(done)"
   add "store(acc, m, n)"
   if o.store == "tma" then add(finish) end
   return lines
end

-- A goes through registers into TMEM before it is multiplied.
function forms.registers(o)
   return { [[
local m, n = tc.axis_index "m", tc.axis_index "n"
for k = 0, math.min(STAGES, STEPS) - 1 do fill(m, n, k, k) end
tc.range(STEPS, function(k)
   local slot = k % STAGES
   tc.barrier_wait(loaded[slot])
   tc.async_store_tmem(a_tmem, a_smem[slot]:load())
   tc.commit_tmem()
   multiply(acc, k, slot)
   tc.barrier_wait(consumed[slot])
   tc.when((k + STAGES):lt(STEPS), function() fill(m, n, k + STAGES, slot) end)
end)
tc.commit_arrive(done)
tc.barrier_wait(done)
store(acc, m, n)]], option(o.store == "tma", finish) }
end

-- Two products of one A.
forms.two = forms.plain

-- The accumulator begins with what GMEM holds.
function forms.preloaded(o)
   local lines = forms.plain(o)
   table.insert(lines, 2, [[
tc.async_store_tmem(acc, initial:tile({ m, n }, { TM, TN }):load())
tc.commit_tmem()]])
   return lines
end

-- Every step's product is added to a sum in registers.
function forms.promoted(o)
   return { ([[
local m, n = tc.axis_index "m", tc.axis_index "n"
for k = 0, math.min(STAGES, STEPS) - 1 do fill(m, n, k, k) end
local sum = tc.var(tc.full({ TM, TN }, 0, "SUM"))
tc.range(STEPS, function(k)
   local slot = k % STAGES
   tc.barrier_wait(loaded[slot])
   multiply(acc, k, slot)
   tc.barrier_wait(consumed[slot])
   sum:set(sum:get() + tc.async_load_tmem(acc)CONVERTED)
   tc.wait_load_tmem()
   tc.when((k + STAGES):lt(STEPS), function() fill(m, n, k + STAGES, slot) end)
end)
store(sum:get(), m, n)]]):gsub("CONVERTED", option(o.acc == "f16", ':astype "f32"')):gsub("SUM",
      o.integer and "i32" or "f32"), option(o.store == "tma", finish) }
end

local function role_declarations(o)
   return ('local load, issue, last = tc.role { name = "load", warps = 1 }, tc.role { name = "mma", warps = 1 },\n' ..
      '   tc.role { name = "epilogue", warpgroups = %d }'):format(o.warpgroups)
end

local function one_tile(o, issue)
   return { 'local m, n = tc.axis_index "m", tc.axis_index "n"', role_declarations(o), [[
load(function()
   tc.range(STEPS, function(k)
      local slot = k % STAGES
      tc.when(k:ge(STAGES), function() tc.barrier_wait(consumed[slot]) end)
      fill(m, n, k, slot)
   end)
end)
issue(function()]], issue, [[
   tc.commit_arrive(done)
end)
last(function()
   tc.barrier_wait(done)
   store(acc, m, n)]], option(o.store == "tma", "   " .. finish), "end)" }
end

function forms.roles(o)
   return one_tile(o, [[
   tc.range(STEPS, function(k)
      tc.barrier_wait(loaded[k % STAGES])
      multiply(acc, k, k % STAGES)
   end)]])
end

-- Two stages are awaited before both are multiplied.
function forms.pairs(o)
   return one_tile(o, [[
   tc.range(STEPS // 2, function(half)
      for i = 0, 1 do tc.barrier_wait(loaded[(2 * half + i) % STAGES]) end
      for i = 0, 1 do multiply(acc, 2 * half + i, (2 * half + i) % STAGES) end
   end)]])
end

-- The loop over tiles is shared by the roles; with `slots` accumulators.
local function persistent(o, slots)
   local slot = slots == 2 and "t % 2" or "0"
   return { ("local free = tc.barrier { num_barriers = %d, orders_tensor_core = true }"):format(slots),
      role_declarations(o), ([[
local cta = tc.axis_index "cta"
tc.range(cta, TILES_M * TILES_N, CTAS, function(tile)
   local m, n, t = tile // TILES_N, tile % TILES_N, (tile - cta) // CTAS
   local into = ACC
   load(function()
      tc.range(STEPS, function(k)
         local step = t * STEPS + k
         tc.when(step:ge(STAGES), function() tc.barrier_wait(consumed[step % STAGES]) end)
         fill(m, n, k, step % STAGES)
      end)
   end)
   issue(function()
      tc.when(t:ge(SLOTS), function() tc.barrier_wait(free[SLOT]) end)
      tc.range(STEPS, function(k)
         local stage = (t * STEPS + k) % STAGES
         tc.barrier_wait(loaded[stage])
         multiply(into, k, stage)
      end)
      tc.commit_arrive(done[SLOT])
   end)
   last(function()
      tc.barrier_wait(done[SLOT])
      store(into, m, n)
      tc.wait_load_tmem()
      tc.barrier_arrive(free[SLOT])
   end)
end)]]):gsub("%u+", { CTAS = tostring(o.ctas), SLOTS = tostring(slots), SLOT = slot,
         ACC = slots == 2 and "acc[t % 2]" or "acc" }),
      option(o.store == "tma", "last(function() " .. finish .. " end)") }
end

function forms.persistent(o) return persistent(o, 1) end
function forms.double(o) return persistent(o, 2) end

-- Inputs: `random` gives normal numbers instead of integers.
local function inputs(o)
   local lines = { "", "local function inputs(random)", "   local arrays = {}" }
   local range = o.integer and { -90, 91 } or o.acc == "f16" and { -1, 2 } or { -3, 4 }
   for i, name in ipairs(all_arguments(o)) do
      local dtype, shape = dtype_of(o, name), shapes[name](o)
      if name == "out" then
         lines[#lines + 1] = ('   arrays[%d] = tc.full({ %s }, %d, "%s")'):format(i, shape,
            o.store == "atomic" and 0 or 77, dtype)
      else
         local low, high = math.max(range[1], dtype == "u8" and 0 or range[1]), range[2]
         lines[#lines + 1] = ('   arrays[%d] = random and tc.randn({ %s }, "%s", { seed = random + %d })\n' ..
            '      or tc.randint({ %s }, "%s", { low = %d, high = %d, seed = %d })'):format(i, shape, dtype, i, shape,
            dtype, low, high, i)
      end
   end
   lines[#lines + 1] = "   return arrays"
   lines[#lines + 1] = "end"
   return lines
end

-- The exact result, rounded once.
local function expectation(o)
   local lines = { "", "local function expected(arrays)" }
   local function add(text) if text ~= "" then lines[#lines + 1] = "   " .. text end end
   add(("local product = tc.reference.matmul(arrays[1], arrays[2], { transpose_a = %s, transpose_b = %s })"):format(
      o.a_transposed, o.b_transposed))
   local changes = {}
   if o.form == "two" then
      add(("local second = tc.reference.matmul(arrays[1], arrays[4], { transpose_a = %s, transpose_b = %s })"):format(
         o.a_transposed, o.b_transposed))
      add "second = second:totable()"
      changes[1] = "x = x + 2 * second[i][j]"
   end
   if o.form == "preloaded" then
      add "local initial = arrays[4]:totable()"
      changes[1] = "x = x + initial[i][j]"
   end
   if o.scale then changes[#changes + 1] = "x = x * 2" end
   for i, name in ipairs(extras(o)) do
      if name == "b2" or name == "initial" then goto continue end
      local index = name == "bias" and "[j]" or name == "row_scale" and "[i]" or "[i][j]"
      local operator = name == "row_scale" and "*" or "+"
      add(("local %s = arrays[%d]:totable()"):format(name, i + 3))
      changes[#changes + 1] = ("x = x %s %s%s"):format(operator, name, index)
      ::continue::
   end
   if o.relu then changes[#changes + 1] = "x = math.max(x, 0)" end
   if #changes > 0 then
      add "local rows = product:totable()"
      add "for i, row in ipairs(rows) do"
      add "   for j, x in ipairs(row) do"
      for _, change in ipairs(changes) do add("      " .. change) end
      add "      row[j] = x"
      add "   end"
      add "end"
      add 'product = tc.from_table(rows, "f64")'
   end
   add(('return product:astype "%s"'):format(o.out))
   lines[#lines + 1] = "end"
   return lines
end

local function indented(lines, out)
   for _, line in ipairs(lines) do
      if line ~= "" then out[#out + 1] = "      " .. line:gsub("\n", "\n      ") end
   end
end

-- The tile of a CTA, where text says what that of its cluster is.
local function of_rank(o, text)
   local change = o.cluster == "rows" and "m = m * 2" or "n = n * 2"
   for _, definition in ipairs { 'local m, n = tc.axis_index "m", tc.axis_index "n"',
      "local m, n, t = tile // TILES_N, tile % TILES_N, (tile - cta) // " .. o.ctas } do
      local first, last = text:find(definition, 1, true)
      if first then
         local indent = text:sub(1, first - 1):match "[ ]*$"
         return text:sub(1, last) .. "\n" .. indent .. change .. ' + tc.axis_index "rank"' .. text:sub(last + 1)
      end
   end
   error "no definition of the tile"
end

-- The loop over K as a loop of Lua: its counter is a number.
local function unrolled(text)
   text = text:gsub("tc%.range%(STEPS, function%(k%)", "unrolled(STEPS, function(k)")
   for name, operator in pairs { gt = ">", ge = ">=", lt = "<" } do
      text = text:gsub("%(([%w +]+)%):" .. name .. "%((%w+)%)", "%1 " .. operator .. " %2")
      text = text:gsub("(%w+):" .. name .. "%((%w+)%)", "%1 " .. operator .. " %2")
   end
   return "local function unrolled(n, body) for k = 0, n - 1 do body(k) end end\n" .. text
end

-- The text of the script: kernel, inputs, expected.
function M.source(o)
   local out = { header(o) }
   if o.named then indented({ ("local STEPS = tc.cdiv(a.shape[%d], TK)"):format(o.a_transposed and 1 or 2) }, out) end
   for _, part in ipairs { allocations(o), helpers(o), epilogue(o), forms[o.form](o) } do indented(part, out) end
   out[#out + 1] = "   end,\n}"
   if o.cluster then out = { of_rank(o, table.concat(out, "\n")) } end
   if o.unrolled then out = { unrolled(table.concat(out, "\n")) } end
   if o.named then out = { (table.concat(out, "\n"):gsub("math%.min%((STAGES[^,]*), STEPS%)", function(ahead)
      return ("math.min(%s, %d)"):format(ahead, ceil(o.k, o.tk)) end)) } end
   for _, part in ipairs { inputs(o), expectation(o) } do table.move(part, 1, #part, #out + 1, out) end
   return table.concat(out, "\n") .. "\n"
end

-- Records the kernel: {kernel=, inputs=, expected=}.  Raises what the recorder refuses.
function M.record(o)
   local text = M.source(o) .. "return { kernel = kernel, inputs = inputs, expected = expected }\n"
   return assert(load(text, "=generated " .. o.index))()
end

-- Features in one line.
function M.describe(o)
   local words = {}
   for key, value in pairs(o) do
      if value then words[#words + 1] = value == true and key or ("%s=%s"):format(key, value) end
   end
   table.sort(words)
   return table.concat(words, " ")
end

return M
