-- Kernels of odd element types and shapes in SMEM and TMEM, for every target: what the compiler and the
-- assembler make of what the checks let through.
local tc = require "tcmma"

local M = {}

local random = math.random
local function pick(list) return list[random(#list)] end

local dtypes = {}
for i, dtype in ipairs(tc.dtypes()) do dtypes[i] = dtype.short end

local rows = { 1, 8, 12, 16, 32, 60, 64, 64, 64, 128, 128, 128, 192, 256 }
local columns = { 1, 2, 4, 8, 8, 16, 16, 24, 32, 40, 48, 64, 64, 96, 128, 200, 256, 272, 512 }

-- An allocation refuses most of what it is asked for; a few attempts find one.
local function some(make)
   for _ = 1, 8 do
      local ok, made = pcall(make)
      if ok then return made end
   end
end

local function tmem()
   return tc.tmem({ pick(rows), pick(columns) }, pick(dtypes), random(2) == 1 and { packed = random(2) == 1 } or nil)
end

local function smem()
   local options
   if random(2) == 1 then
      options = { swizzle = pick { "none", 32, 64, 128 } }
      if random(3) == 1 then options.tiling = { pick { 1, 2, 8, 16 }, pick { 4, 8, 16, 32, 64 } } end
   end
   local shape = { pick(rows), pick(columns) }
   if random(4) == 1 then table.insert(shape, 1, random(3)) end
   return tc.smem(shape, pick(dtypes), options)
end

local function copied(from, to)
   local loaded = tc.barrier {}
   tc.copy_gmem_to_smem(from, to, loaded)
   tc.barrier_wait(loaded)
end

local function multiplied(acc, a, b, accumulate)
   local done = tc.barrier { orders_tensor_core = true }
   tc.mma(acc, a, b, { accumulate = accumulate, barrier = done })
   tc.barrier_wait(done)
end

-- One operation of the body on what is there; `o`: lists of refs.  Errors are for the caller.
local operations = {
   function(o) o.fragments[#o.fragments + 1] = tc.async_load_tmem(pick(o.tmem)) end,
   function(o) tc.async_store_tmem(pick(o.tmem), pick(o.fragments)) end,
   function(o)
      local t = pick(o.tmem)
      tc.async_store_tmem(t, tc.full(t.shape, 1, t.dtype))
   end,
   function(o)
      -- There and back, of any type.
      local dtype = pick(dtypes)
      local t = tc.tmem({ pick { 64, 128 }, pick(columns) }, dtype, { packed = random(3) > 1 })
      o.tmem[#o.tmem + 1] = t
      tc.async_store_tmem(t, tc.full(t.shape, dtype == "b1" or 1, dtype))
      o.fragments[#o.fragments + 1] = tc.async_load_tmem(t)
   end,
   function(o)
      local t = pick(o.tmem)
      o.tmem[#o.tmem + 1] = t:at(pick { tc.all, tc.ds(0, 64) }, tc.ds(pick { 0, 8, 16, 32 }, pick { 8, 16, 32, 64 }))
   end,
   function(o) o.fragments[#o.fragments + 1] = pick(pick { o.smem, o.gmem }):load() end,
   function(o) pick(pick { o.smem, o.gmem }):store(pick(o.fragments)) end,
   function(o)
      local s = pick(o.smem)
      s:store(tc.full(s.shape, 1, s.dtype))
   end,
   function(o) o.fragments[#o.fragments + 1] = pick(o.fragments):astype(pick(dtypes)) end,
   function(o)
      local a, b = pick(o.fragments), pick(o.fragments)
      o.fragments[#o.fragments + 1] = pick {
         function() return a + b end, function() return a * 2 end, function() return a:reduce("max", random(2)) end,
         function() return a:lt(b) end, function() return tc.exp2(a) end, function() return tc.where(a:lt(0), a, 0) end,
         function() return tc.max(a, b) end, function() return a & 3 end,
      }()
   end,
   function(o)
      local s = pick(o.smem)
      o.smem[#o.smem + 1] = pick {
         function() return s:T() end, function() return s[0] end, function() return s:tile({ 0, 0 }, { 8, 8 }) end,
         function() return s:at(tc.ds(0, 8), tc.all) end,
      }()
   end,
   function(o) copied(pick(o.gmem), pick(o.smem)) end,
   function(o)
      local s = pick(o.smem)
      for _, g in ipairs(o.gmem) do
         if g.dtype == s.dtype then copied(g:tile({ 0, 0 }, s.shape), s) end
      end
   end,
   function(o) tc.copy_smem_to_gmem(pick(o.smem), pick(o.gmem)) end,
   function(o) tc.async_copy_smem_to_tmem(pick(o.smem), pick(o.tmem)) end,
   function(o)
      multiplied(pick(o.tmem), pick(pick { o.smem, o.tmem }), pick(o.smem), random(2) == 1)
   end,
   function(o)
      -- An accumulator and operands that fit, of odd sizes.
      local m, n, k = pick { 64, 128, 192, 256 }, pick(columns), pick { 8, 16, 32, 64, 128 }
      local a, b = pick(dtypes), pick(dtypes)
      if random(3) ~= 1 then b = a end
      local acc = tc.tmem({ m, n }, pick { "f32", "f32", "f16", "i32" })
      local operand = random(2) == 1 and tc.smem({ k, n }, b) or tc.smem({ n, k }, b):T()
      multiplied(acc, tc.smem({ m, k }, a), operand, false)
      o.tmem[#o.tmem + 1] = acc
   end,
   function() tc.commit_tmem() end,
   function() tc.wait_load_tmem() end,
   function() tc.commit_smem() end,
   function(o) tc.print("{}", pick(pick { o.fragments, o.smem })) end,
   function(o) tc.atomic_add(pick(o.gmem), pick(o.fragments)) end,
}

-- A kernel; what is refused while it is recorded goes to `refused(message)`.
function M.make(refused)
   local args = {}
   for i = 1, random(3) do args[i] = tc.gmem({ pick(rows), pick(columns) }, pick(dtypes)) end
   return tc.kernel { name = "odd", args = args, body = function(...)
      local o = { gmem = { ... }, smem = { some(smem), some(smem) }, tmem = { some(tmem), some(tmem) },
         fragments = {} }
      if random(3) == 1 then o.tmem[#o.tmem + 1] = tc.tmem({ pick { 64, 128 }, 64 }, "f32") end
      local function body()
         o.fragments[1] = tc.full({ 128, 64 }, 0, "f32")
         for _ = 1, random(8) do
            local ok, message = pcall(pick(operations), o)
            if not ok then refused(message) end
         end
      end
      if random(3) == 1 then
         tc.role { name = "odd", warpgroups = random(2) }(body)
      else
         body()
      end
   end }
end

return M
