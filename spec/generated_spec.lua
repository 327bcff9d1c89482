-- Generated matmuls on the emulator of both targets, against exact arithmetic: every kernel in one of
-- the modes, and with the adders of the hardware too.
local generated = require "generated_kernels"
local runs = require "generated_run"

local PER_FORM = 5

local modes = {
   { mode = "fast" }, { mode = "check" }, { mode = "random", seed = 7 },
   { mode = "fast", numerics = "hardware" },
}

-- The first `count` kernels of a form.
local function of_form(target, form, count)
   local found, index = {}, 0
   while #found < count do
      local o = generated.draw(target, index)
      if o.form == form then found[#found + 1] = o end
      index = index + 1
   end
   return found
end

describe("generated matmuls", function()
   for _, target in ipairs { "sm_90a", "sm_100a" } do
      for _, form in ipairs(generated.forms) do
         it(("of form %s on the emulator of %s"):format(form, target), function()
            for i, o in ipairs(of_form(target, form, PER_FORM)) do
               local run = modes[i % #modes + 1]
               local function fails(t) return (runs.check_emulator(t, run)) end
               local message = fails(o)
               if message then
                  local small = runs.shrink(o, fails)
                  error(("%s\n%s\nscript: %s"):format(message, generated.describe(small),
                     runs.save(small, message)))
               end
            end
         end)
      end
   end
end)

describe("the generator", function()
   it("draws the same kernels for the same seed, and others for another", function()
      local first, again = generated.draw("sm_90a", 11, 3), generated.draw("sm_90a", 11, 3)
      assert.same(first, again)
      assert.not_same(first, generated.draw("sm_90a", 11, 4))
   end)

   it("makes a failing kernel smaller and writes its script", function()
      local drawn
      for index = 0, 400 do
         local o = generated.draw("sm_90a", index)
         if o.bias and o.stages > 2 and not o.halves and o.form == "persistent" then drawn = o break end
      end
      local small = runs.shrink(drawn, function(o) return o.bias and "the bias" or nil end)
      assert.is_true(small.bias)
      assert.equal("plain", small.form)
      assert.equal(1, small.stages)
      local path = runs.save(small, "the bias")
      local file = assert(io.open(path))
      local text = file:read "a"
      file:close()
      os.remove(path)
      assert.is_function(load(text))
      assert.matches("tc.kernel", text, 1, true)
   end)
end)
