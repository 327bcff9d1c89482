-- Every tiling of a few shapes: it is refused, or what is copied in and out again is the same.
local tc = require "tcmma"
local helper = require "helper"

-- What of a tiling is legal, by docs/manual.md: it divides the shape, and cuts rows by eights into
-- swizzle spans, without swizzle into 16 bytes or not at all.
local function is_legal(rows, columns, unit, swizzle, tiling)
  local last, above = tiling[#tiling] or columns, tiling[#tiling - 1]
  if columns % last ~= 0 or (above and rows % above ~= 0) then return false end
  local spans = swizzle and { swizzle == "none" and 0 or swizzle // 16 } or { 8, 4, 2, 0 }
  for _, span in ipairs(spans) do
    local panels = span > 0 or (#tiling > 0 and last == unit)
    local fits
    if span > 0 then fits = last == span * unit else fits = panels or last == columns end
    if fits and not (panels and (rows % 8 ~= 0 or (above and above % 8 ~= 0))) then return true end
  end
  return false
end

local function round_trip(rows, columns, dtype, options)
  return tc.kernel{
    name = "tiled", args = { tc.gmem({ rows, columns }, dtype), tc.gmem({ rows, columns }, dtype) },
    body = function(a, out)
      local tile, loaded = tc.smem({ rows, columns }, dtype, options), tc.barrier{}
      tc.copy_gmem_to_smem(a, tile, loaded)
      tc.barrier_wait(loaded)
      tc.copy_smem_to_gmem(tile, out)
      tc.wait_smem_to_gmem(0)
    end,
  }
end

describe("a tiling", function()
  for _, dtype in ipairs{ tc.float16, tc.float8_e4m3fn, tc.float4_e2m1fn } do
    local unit = 128 // dtype.bits
    for _, rows in ipairs{ 4, 12, 24 } do
      for _, columns in ipairs{ unit, 8 * unit } do
        it(("of (%d, %d) %s is refused, or copies are right"):format(rows, columns, dtype), function()
          local a = tc.randint({ rows, columns }, dtype, { low = 0, high = 4, seed = 1 })
          local first = { false, 4, 8, 12, rows }
          local last = { unit // 2, unit, 2 * unit, 4 * unit, 8 * unit }
          for _, swizzle in ipairs{ false, "none", 32, 64, 128 } do
            for _, above in ipairs(first) do
              for _, size in ipairs(last) do
                local tiling = above and { above, size } or { size }
                local options = { swizzle = swizzle or nil, tiling = tiling }
                local text = ("swizzle %s, tiling {%s}"):format(swizzle or "chosen", table.concat(tiling, ", "))
                local ok, kernel = pcall(round_trip, rows, columns, dtype, options)
                assert.are.equal(is_legal(rows, columns, unit, swizzle, tiling), ok, text .. ": " .. tostring(kernel))
                if ok then
                  local out = tc.zeros({ rows, columns }, dtype)
                  local report = kernel:emulate({ target = "sm_100a", mode = "check" }, a, out)
                  assert.are.equal(0, #report.hazards, text)
                  assert.is_true(out:equal(a), text)
                else
                  helper.first_line(kernel)
                end
              end
            end
          end
        end)
      end
    end
  end
end)
