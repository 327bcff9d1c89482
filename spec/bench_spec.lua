local tc = require "tcmma"

local message = require "helper".message

describe("tc.bench", function()
  local opts = { device = "emulator", warmup = 2, repetitions = 5, quantiles = { 0, 1 } }

  it("calls as often as asked", function()
    local calls = 0
    tc.bench(function() calls = calls + 1 end, opts)
    assert.equal(7, calls)
  end)

  it("gives microseconds", function()
    local function wait()
      local from = tc.clock()
      repeat until tc.clock() - from > 0.002
    end
    local median, report = tc.bench(wait, opts)
    assert.is_true(median >= 2000 and median < 200000)
    assert.equal(median, report.median)
    assert.equal("host", report.clock)
    assert.equal(5, report.repetitions)
    assert.equal(5, #report.times)
    assert.same({ report.min, report.max }, report.quantiles)
    assert.is_true(report.min <= report.median and report.median <= report.max)
    assert.is_true(report.min <= report.mean and report.mean <= report.max)
  end)

  it("passes errors on", function()
    assert.matches("broken$", message(tc.bench, function() error "broken" end, opts))
  end)

  it("checks its arguments", function()
    assert.matches("function expected, got integer 5", message(tc.bench, 5))
    assert.matches("unknown option 'warm' %(did you mean 'warmup'%?%)",
      message(tc.bench, print, { warm = 1 }))
    assert.matches("unknown option 'x' %(options: device, quantiles, repetitions, warmup%)",
      message(tc.bench, print, { x = 1 }))
    assert.matches("option 'repetitions' must be an integer >= 1, got integer 0",
      message(tc.bench, print, { repetitions = 0 }))
    assert.matches("options table expected, got string \"emulator\"", message(tc.bench, print, "emulator"))
  end)
end)
