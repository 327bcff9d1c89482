-- ref:peek of whatever tensor memory can hold: no element of an allocation lies outside of it.
local tc = require "tcmma"

local layouts = { false, "m64_collective", "m64_collective_a", "scales", "sparse_metadata" }

-- Every element is read, whatever the layout makes of rows, columns and slots.
local function peeks(shape, dtype, options)
  local kernel = tc.record { name = "peek", cluster = options.collective and { 2 } or nil,
    cluster_names = options.collective and { "cta" } or nil }
  local allocated, ref = pcall(function()
    tc.tmem({ 128, 32 }, tc.f32, { collective = options.collective })
    return tc.tmem(shape, dtype, options)
  end)
  local seen, array = true, nil
  if allocated then seen, array = pcall(ref.peek, ref, { quiet = true }) end
  if seen and array and not options.layout then assert.same(shape, array.shape) end
  kernel:close()
  assert.is_true(seen, ("%s (%s) %s: %s"):format(dtype, table.concat(shape, ", "), options.layout, array))
  return allocated and 1 or 0
end

describe("peek", function()
  setup(function() tc.use "emulator:sm_100a" end)
  for _, layout in ipairs(layouts) do
    it("reads slots of the layout " .. (layout or "of the shape"), function()
      local allocated = 0
      for _, rows in ipairs { 64, 128 } do
        for _, columns in ipairs { 16, 64 } do
          for slots = 1, 4 do
            for _, dtype in ipairs { "f32", "f16", "e4m3", "u2" } do
              for _, collective in ipairs { false, true } do
                local packed
                if not layout and dtype ~= "f32" then packed = dtype ~= "f16" end
                local fits = layout ~= "m64_collective_a" or rows == 64
                allocated = allocated + (fits and peeks({ slots, rows, columns }, dtype,
                  { layout = layout or nil, packed = packed, collective = collective or nil }) or 0)
              end
            end
          end
        end
      end
      assert.is_true(allocated >= 8)
    end)
  end
end)
