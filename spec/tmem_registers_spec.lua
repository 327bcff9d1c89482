-- Every kind of tile of tensor memory through registers, on each target: a load gives what a store put there, or
-- the call is refused in words that name what is legal.
local tc = require "tcmma"

local dtypes = { "f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "e8m0", "e2m3", "e3m2", "e2m1", "i32", "u32", "i16",
   "u16", "i8", "u8", "i4", "u4", "u2", "bool", "f64", "i64", "u64" }

local options = { plain = {}, packed = { packed = true }, unpacked = { packed = false }, padded = { padded = true } }

-- What may stand in a refusal; a refusal that says something else is a fault of the compiler's.
local refusals = {
   "^TMEM holds", "^Unsupported shape", "^dtypes narrower than 32%-bit require", "^Packing must be", "^padded is for",
   "^TMEM layout %S+ is not supported", "^Columns must be a multiple of %d+", "^ref:load does not support",
   "^%d+ columns of %S+ cannot be loaded or stored: a multiple of %d+ is needed%.",
   "^tc%.async_%a+_tmem does not run on sm_90a.*slices of a multiple of %d+ columns that start at one",
}

-- o: dtype, options, rows, columns, warpgroups, store, load
local function kernel(o, target)
   return tc.kernel {
      name = "tile", target = target,
      args = { tc.gmem({ o.rows, o.columns }, o.dtype), tc.gmem({ o.rows, o.columns }, o.dtype) },
      body = function(source, out)
         local tile = tc.tmem({ o.rows, o.columns }, o.dtype, o.options)
         tc.role { name = "tile", warpgroups = o.warpgroups }(function()
            if o.store then
               tc.async_store_tmem(tile, source:load())
               tc.commit_tmem()
            end
            if o.load then out:store(tc.async_load_tmem(tile)) end
         end)
      end,
   }
end

-- True: it ran; with both, the tile came back.
local function check(o, target)
   local text = ("%s %s (%d, %d), %d warpgroups, %s%s"):format(target, o.dtype, o.rows, o.columns, o.warpgroups,
      o.store and "stored " or "", o.load and "loaded" or "")
   local shape = { o.rows, o.columns }
   local ran, result = pcall(function()
      local k = kernel(o, target)
      local source, out = tc.randint(shape, o.dtype, { low = 0, high = 2, seed = o.columns }), tc.zeros(shape, o.dtype)
      k:emulate({ target = target, mode = "fast" }, source, out)
      return not (o.store and o.load) or tc.max_error(source, out) == 0
   end)
   if ran then
      assert.is_true(result, text)
      return true
   end
   local message = tostring(result):gsub("^[^\n]-lua:%d+: ", "")
   for _, refusal in ipairs(refusals) do
      if message:find(refusal) then return false end
   end
   error(text .. ": " .. message)
end

for _, target in ipairs { "sm_90a", "sm_100a" } do
   describe("a tile of TMEM through registers on " .. target, function()
      for _, dtype in ipairs(dtypes) do
         it("works or is refused in words: " .. dtype, function()
            for _, given in pairs(options) do
               for _, rows in ipairs { 64, 128, target == "sm_90a" and 256 or nil } do
                  for columns = 8, 64, 8 do
                     for warpgroups = 1, 2 do
                        local o = { dtype = dtype, options = given, rows = rows, columns = columns,
                           warpgroups = warpgroups }
                        for what = 1, 3 do
                           o.store, o.load = what ~= 1, what ~= 2
                           check(o, target)
                        end
                     end
                  end
               end
            end
         end)
      end
   end)
end

describe("a tile of 4-bit elements on sm_90a", function()
   it("has whole registers of each thread", function()
      for _, dtype in ipairs { "e2m1", "i4", "u4" } do
         for columns = 8, 128, 8 do
            local o = { dtype = dtype, options = options.packed, rows = 128, columns = columns, warpgroups = 1,
               store = true, load = true }
            assert.are.equal(columns % 32 == 0, check(o, "sm_90a"), ("%s, %d columns"):format(dtype, columns))
         end
      end
   end)
end)
