local json = require "tcmma.json"
local matmul = require "tcmma.matmul"
local tc = require "tcmma"

-- y = x + 1 over tiles of `rows` rows, `waste` times.
local function kernel(config)
   if config.refuse then error("this one is refused", 0) end
   if config.nothing then return nil, "no such thing", "no-thing" end
   return tc.kernel {
      name = "increment", args = { tc.gmem({ 256, 64 }, "f32"), tc.gmem({ 256, 64 }, "f32") },
      grid = { 256 // config.rows }, grid_names = { "m" },
      body = function(x, y)
         local tile = { config.rows, 64 }
         local m = tc.axis_index "m"
         for _ = 1, config.waste or 1 do
            y:tile({ m, 0 }, tile):store(x:tile({ m, 0 }, tile):load() + (config.add or 1))
         end
      end,
   }
end

local function inputs()
   return { tc.zeros({ 256, 64 }, "f32"), tc.zeros({ 256, 64 }, "f32") }
end

describe("tc.autotune", function()
   local folder, before

   before_each(function()
      folder = os.tmpname()
      os.remove(folder)
      before = tc.config.cache_dir
      tc.config.cache_dir = folder
   end)

   after_each(function()
      tc.config.cache_dir = before
      os.execute("rm -rf " .. folder)
   end)

   it("takes the candidate of least cost", function()
      local candidates = { { rows = 64, waste = 3 }, { rows = 64 }, { rows = 64, waste = 2 } }
      local config, best, results = tc.autotune(candidates, kernel, inputs())
      assert.equal(candidates[2], config)
      assert.equal("warp_instructions", results.by)
      assert.is_true(results[2].cost < results[3].cost and results[3].cost < results[1].cost)
      local arrays = inputs()
      best(table.unpack(arrays))
      assert.equal(1, arrays[2]:get(255, 63))
   end)

   it("skips what is refused, with the reason", function()
      local config, _, results = tc.autotune({
         { rows = 64, refuse = true }, { rows = 64, nothing = true }, { rows = 64 }, {},
      }, kernel, inputs())
      assert.same({ rows = 64 }, config)
      assert.equal("this one is refused", results[1].reason)
      assert.equal("no such thing", results[2].reason)
      assert.is_nil(results[3].reason)
      assert.is_string(results[4].reason)
   end)

   it("skips what does not fit", function()
      local problem = { M = 128, N = 256, K = 1024, dtype = "bf16", transpose_b = true, target = "sm_100a" }
      local a, b = tc.ones({ 128, 1024 }, "bf16"), tc.ones({ 256, 1024 }, "bf16")
      local config, _, results = tc.autotune({ { tile_n = 256, stages = 9 }, { tile_n = 256, stages = 3 } },
         function(c) return (matmul.kernel(problem, c)) end, { a, b, tc.zeros({ 128, 256 }, "bf16") })
      assert.equal(3, config.stages)
      assert.matches("needs %d+ bytes of SMEM", results[1].reason)
   end)

   it("skips what computes something else", function()
      local config, _, results = tc.autotune({ { rows = 64, add = 2 }, { rows = 64, waste = 2 } }, kernel, inputs(),
         { check = function(_, y) return y:get(0, 0) == 1 end })
      assert.equal(2, config.waste)
      assert.equal("its result is wrong", results[1].reason)
   end)

   it("raises with all reasons when nothing is left", function()
      local ok, message = pcall(tc.autotune, { { refuse = true }, { nothing = true } }, kernel, inputs())
      assert.is_false(ok)
      assert.matches("no candidate works:\n  {refuse=true}: this one is refused\n  {nothing=true}: no such thing",
         message)
   end)

   it("measures time, counters and functions of them", function()
      local candidates = { { rows = 64, waste = 4 }, { rows = 64 } }
      local config, _, results = tc.autotune(candidates, kernel, inputs(), { by = "time", repetitions = 3, rounds = 1 })
      assert.equal("time", results.by)
      assert.is_true(results[1].cost > 0 and results[2].cost > 0)
      assert.is_table(config)
      config = tc.autotune(candidates, kernel, inputs(), { by = function(c) return -c.warp_instructions end })
      assert.equal(4, config.waste)
      assert.has_error(function() tc.autotune(candidates, kernel, inputs(), { by = "no_such" }) end)
   end)

   it("keeps the results on disk", function()
      local candidates, runs = { { rows = 64, waste = 2 }, { rows = 64 }, { rows = 1, refuse = true } }, 0
      local function by(counters)
         runs = runs + 1
         return counters.warp_instructions
      end
      local first, _, results = tc.autotune(candidates, kernel, inputs(), { by = by, key = "1", name = "increment" })
      assert.is_false(results.from_disk)
      assert.equal(2, runs)
      local again, best, more = tc.autotune(candidates, kernel, inputs(), { by = by, key = "1" })
      assert.is_true(more.from_disk)
      assert.equal(2, runs)
      assert.equal(first, again)
      assert.equal(results[1].cost, more[1].cost)
      assert.equal(results[3].reason, more[3].reason)
      assert.is_not_nil(best)
      local handle = assert(io.open(results.path))
      local data = json.decode(handle:read "a")
      handle:close()
      assert.equal("increment", data.name)
      assert.equal(3, #data.results)
   end)

   it("measures again when a kernel, an argument or the key is another", function()
      local candidates = { { rows = 64 }, { rows = 128 } }
      local function from_disk(build, options)
         local _, _, results = tc.autotune(candidates, build or kernel, inputs(), options)
         return results.from_disk
      end
      assert.is_false(from_disk())
      assert.is_true(from_disk())
      assert.is_false(from_disk(function(c) return kernel { rows = c.rows, add = 5 } end))
      assert.is_false(from_disk(nil, { key = "another" }))
      assert.is_false(from_disk(nil, { cache = false }))
      local function by(counters) return counters.warp_instructions end
      from_disk(nil, { by = by })
      assert.is_false(from_disk(nil, { by = by }))
   end)

   it("takes a damaged file as absent", function()
      local _, _, results = tc.autotune({ { rows = 64 } }, kernel, inputs())
      local handle = assert(io.open(results.path, "w"))
      handle:write "{"
      handle:close()
      local _, _, again = tc.autotune({ { rows = 64 } }, kernel, inputs())
      assert.is_false(again.from_disk)
   end)

   it("refuses wrong arguments", function()
      assert.error_matches(function() tc.autotune({}, kernel, {}) end, "a list of at least one candidate expected")
      assert.error_matches(function() tc.autotune({ {} }, 1, {}) end,
         "function that builds a candidate expected, got integer 1")
      assert.error_matches(function() tc.autotune({ {} }, kernel, 1) end,
         "list of the arguments of a call expected, got integer 1")
      assert.error_matches(function() tc.autotune({ {} }, kernel, {}, { bye = 1 }) end, "unknown option 'bye'")
      assert.error_matches(function() tc.autotune({ {} }, kernel, {}, { by = 1 }) end, "option 'by' must be")
   end)
end)

describe("json.encode", function()
   it("is read back by json.decode", function()
      local value = { a = { 1, 2.5, "x\"\n", true }, b = { c = false, d = -7 }, e = {} }
      assert.same(value, json.decode(json.encode(value)))
      assert.equal('{"a": [1, 2], "b": "c"}', json.encode { b = "c", a = { 1, 2 } })
      assert.has_error(function() json.encode(print) end)
   end)
end)
