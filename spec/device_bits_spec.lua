-- What an H200 left in memory for the same PTX (spec/device/results.txt, hashes), against the emulator.  Here some
-- of each
-- group; all of them: `make check-device-bits DEVICE=none`, and with a GPU its memory itself.
local groups = require "spec.device.groups"
local runner = require "spec.device.runner"
local difference = require "spec.device.difference"

local directory = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
local recorded = groups.recorded(directory .. "device/results.txt")

-- How many of a group's cases are tried: every nth.
local step = { scalar = 9, convert = 19, warp = 3, atomic = 4, copy = 4, bulk = 3, barrier = 4, matrix = 1, mma = 3,
  wgmma = 61,
  maps = 31, tensor = 29, interleave = 29, edge = 1, video = 29, wmma = 7, pixels = 53, access = 83, order = 5 }

describe("what an H200 does, the emulator does:", function()
  for _, group in ipairs(groups) do
    local results = recorded[group.name]
    if results and step[group.name] then
      it(group.name, function()
        local wrong, tried = {}, 0
        for i, case in ipairs(groups.cases(group.name)) do
          local hash = (results[case.family] or {})[case.number]
          local excused = difference.rule(case)
          if hash and hash ~= "?" and not excused and i % step[group.name] == 0 then
            local bytes, why = runner.emulate(case)
            -- "-": the assembler or the device refuses it; the emulator may take what the assembler does not
            if hash ~= "-" then
              tried = tried + 1
              if not bytes then
                wrong[#wrong + 1] = ("%s: %s"):format(case.name, why)
              elseif groups.hash(bytes) ~= hash then
                wrong[#wrong + 1] = case.name
              end
            elseif bytes and (group.name == "edge" or group.name == "interleave" or group.name == "pixels") then
              wrong[#wrong + 1] = case.name .. " is refused by the device"
            end
          end
        end
        assert.same({}, wrong)
        assert.is_true(tried > 0)
      end)
    end
  end
end)
