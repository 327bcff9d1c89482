-- What reports of the emulator say: names and lines of the script rather than addresses.
local tc = require "tcmma"
local process = require "process"

local SPEC = debug.getinfo(1, "S").short_src

local function here() return debug.getinfo(2, "l").currentline end

local function place(line) return SPEC .. ":" .. line end

local function report_of(target, kernel, options, ...)
  options.target = target
  options.mode = options.mode or "check"
  return kernel:emulate(options, ...)
end

local function hazards_of(report, rule)
  local list = {}
  for _, hazard in ipairs(report.hazards) do
    if hazard.rule == rule then list[#list + 1] = hazard end
  end
  return list
end

local function contains(text, part)
  assert(text:find(part, 1, true), ("%q is not in:\n%s"):format(part, text))
end

local function contains_not(text, part)
  assert(not text:find(part, 1, true), ("%q is in:\n%s"):format(part, text))
end

local function both(title, fn)
  for _, target in ipairs { "sm_100a", "sm_90a" } do
    it(title .. " (" .. target .. ")", function() fn(target) end)
  end
end

describe("a deadlock", function()
  local made, waits, arrives
  local function kernel()
    return tc.kernel { args = { tc.gmem({ 1 }, "i32") }, body = function(o)
      made = here() + 1
      local full = tc.barrier { name = "full", num_barriers = 2 }
      local producer, consumer = tc.role { name = "producer", warps = 1 }, tc.role { name = "consumer", warps = 1 }
      producer(function()
        tc.when(o[0]:load():gt(5), function()
          arrives = here() + 1
          tc.barrier_arrive(full[1])
        end)
      end)
      consumer(function()
        waits = here() + 1
        tc.barrier_wait(full[1])
        o[0] = 1
      end)
    end }
  end

  both("names the role, the barrier, its slot and their lines, and who would have arrived", function(target)
    local hazard = report_of(target, kernel(), {}, tc.zeros({ 1 }, "i32")).hazards[1]
    assert.equal("deadlock", hazard.rule)
    contains(hazard.message, "role 'consumer'")
    contains(hazard.message, "barrier full[1]")
    contains(hazard.message, "made at " .. place(made))
    contains(hazard.message, place(waits))
    contains(hazard.message, "1 of 1 arrivals missing")
    contains(hazard.message, "role 'producer' by tc.barrier_arrive at " .. place(arrives))
    contains(hazard.message, "likely: nobody has arrived on barrier full[1]")
    contains(hazard.message, "fix: tc.barrier_arrive(b)")
    assert.equal("consumer", hazard.role)
  end)

  it("is an error with the same words", function()
    local _, message = pcall(kernel(), tc.zeros({ 1 }, "i32", { device = "emulator:sm_100a" }))
    contains(message, "role 'consumer'")
    contains(message, "barrier full[1]")
  end)

  both("names a barrier without a name by its line", function(target)
    local line
    local k = tc.kernel { args = { tc.gmem({ 1 }, "i32") }, body = function(o)
      line = here() + 1
      local b = tc.barrier {}
      tc.when(o[0]:load():gt(5), function() tc.barrier_arrive(b) end)
      tc.barrier_wait(b)
    end }
    local hazard = report_of(target, k, {}, tc.zeros({ 1 }, "i32")).hazards[1]
    contains(hazard.message, "made at " .. place(line))
    contains_not(hazard.message, "role 'main'")
  end)
end)

describe("a hazard of shared memory", function()
  both("names the allocation, the offset in it and its line", function(target)
    local made
    local k = tc.kernel { args = { tc.gmem({ 8, 8 }, "f32") }, body = function(o)
      tc.smem({ 64, 8 }, "f32"):store(0)
      made = here() + 1
      local s = tc.smem({ 2, 8, 8 }, "f32", { name = "mine" })
      s[0]:store(1)
      tc.commit_smem()
      o:store(s[1]:load())
    end }
    local message = report_of(target, k, {}, tc.zeros({ 8, 8 }, "f32")).hazards[1].message
    contains(message, "mine + 0x100 of " .. place(made))
  end)

  both("says nothing of an offset at the start", function(target)
    local k = tc.kernel { args = { tc.gmem({ 8, 8 }, "f32") }, body = function(o)
      o:store(tc.smem({ 8, 8 }, "f32", { name = "first" }):load())
    end }
    local message = report_of(target, k, {}, tc.zeros({ 8, 8 }, "f32")).hazards[1].message
    contains(message, "(first of ")
  end)
end)

describe("tc.assert", function()
  both("has its message in the hazard", function(target)
    local k = tc.kernel { args = { tc.gmem({ 1 }, "i32") }, body = function(o)
      tc.assert(o[0]:load():eq(0), "must be 0% of it")
    end }
    local report = report_of(target, k, {}, tc.ones({ 1 }, "i32"))
    assert.is_false(report.completed)
    assert.equal("assert", report.hazards[1].rule)
    contains(report.hazards[1].message, "must be 0% of it")
    assert.equal("", report.output)
  end)

  it("has its message in the error", function()
    local output = process.run [[
      local tc = require "tcmma"
      tc.use "emulator"
      local k = tc.kernel { args = { tc.gmem({ 1 }, "i32") }, body = function(o)
        tc.assert(o[0]:load():eq(0), "must be 0")
        tc.assert(o[0]:load():eq(0))
      end }
      io.write("error: ", (select(2, pcall(k, tc.ones({ 1 }, "i32"))):gsub("\n", " ")))]]
    assert.matches("error: .*failed.*must be 0", output)
  end)

  it("has not what another warp printed", function()
    local k = tc.kernel { args = { tc.gmem({ 1 }, "i32") }, body = function(o)
      tc.role { name = "talks", warps = 1 } (function() tc.print("all is well") end)
      tc.role { name = "asserts", warps = 1 } (function() tc.assert(o[0]:load():eq(0), "must be 0") end)
    end }
    local message = report_of("sm_100a", k, {}, tc.ones({ 1 }, "i32")).hazards[1].message
    contains(message, "must be 0")
    contains_not(message, "all is well")
  end)
end)

describe("a recorded kernel's hazard", function()
  -- { what is forgotten, rule, call that mends it, arguments, body }
  local tile = { 64, 64 }
  local function matrix() return tc.gmem(tile, "f32") end
  local cases = {
    { "commit_smem", "proxy-fence", "tc.commit_smem()", { matrix, matrix }, function(x, o)
      local s = tc.smem(tile, "f32")
      s:store(x:load())
      tc.copy_smem_to_gmem(s, o)
      tc.wait_smem_to_gmem(0)
    end },
    { "wait_smem_to_gmem", "bulk-read-not-awaited", "tc.wait_smem_to_gmem(", { matrix, matrix }, function(x, o)
      local s = tc.smem(tile, "f32")
      tc.range(2, function()
        s:store(x:load())
        tc.commit_smem()
        tc.copy_smem_to_gmem(s, o)
      end)
      tc.wait_smem_to_gmem(0)
    end },
    { "a barrier", "shared-race", "tc.barrier_arrive", { matrix, matrix }, function(x, o)
      local s = tc.smem(tile, "f32")
      tc.role { name = "writer", warpgroups = 1 } (function() s:store(x:load()) end)
      tc.role { name = "reader", warpgroups = 1 } (function() o:store(s:load()) end)
    end },
  }
  for _, case in ipairs(cases) do
    both("says which call is missing: " .. case[1], function(target)
      local args, arrays = {}, {}
      for i, make in ipairs(case[4]) do
        args[i] = make()
        arrays[i] = tc.ones(tile, "f32")
      end
      local k = tc.kernel { args = args, body = case[5] }
      local found = hazards_of(report_of(target, k, {}, table.unpack(arrays)), case[2])
      assert.equal(1, #found)
      contains(found[1].message, case[3])
      contains(found[1].message, "(in PTX: ")
      assert(found[1].count > 1)
    end)
  end

  it("has the line of the other side", function()
    local written
    local k = tc.kernel { args = { tc.gmem(tile, "f32"), tc.gmem(tile, "f32") }, body = function(x, o)
      local s = tc.smem(tile, "f32")
      written = here() + 1
      s:store(x:load())
      tc.copy_smem_to_gmem(s, o)
      tc.wait_smem_to_gmem(0)
    end }
    local report = report_of("sm_100a", k, {}, tc.ones(tile, "f32"), tc.ones(tile, "f32"))
    local hazard = hazards_of(report, "proxy-fence")[1]
    assert.equal(written, hazard.other_lua_line)
    assert.equal(hazard.lua_file, hazard.other_lua_file)
  end)

  it("speaks PTX where the text is not the recorder's", function()
    local m = tc.ptx [[
      .version 8.6
      .target sm_100a
      .address_size 64
      .shared .align 16 .b8 s[256];
      .visible .entry k() .reqntid 64
      {
        .reg .b32 %r<4>;
        mov.u32 %r0, %tid.x;
        shl.b32 %r1, %r0, 2;
        mov.u32 %r2, s;
        add.u32 %r1, %r1, %r2;
        st.shared.u32 [%r1], %r0;
        ld.shared.u32 %r3, [s];
        ret;
      }]]
    local report = m:kernel "k":emulate { mode = "check", block = { 64 } }
    local message = report.hazards[1].message
    contains_not(message, "tc.")
    contains_not(message, "in PTX:")
  end)
end)

describe("an accumulator that nothing has written", function()
  local function kernel(accumulate, read)
    return tc.kernel {
      args = { tc.gmem({ 128, 64 }, "f16"), tc.gmem({ 64, 64 }, "f16"), tc.gmem({ 128, 64 }, "f32") },
      body = function(x, y, o)
        local s, t = tc.smem({ 128, 64 }, "f16"), tc.smem({ 64, 64 }, "f16")
        local acc = tc.tmem({ 128, 64 }, "f32")
        local done, loaded = tc.barrier { orders_tensor_core = true }, tc.barrier { num_arrivals = 2 }
        tc.copy_gmem_to_smem(x, s, loaded)
        tc.copy_gmem_to_smem(y, t, loaded)
        tc.barrier_wait(loaded)
        if read then
          tc.commit_arrive(done)
        else
          tc.mma(acc, s, t, { accumulate = accumulate, barrier = done })
        end
        tc.barrier_wait(done)
        o:store(tc.async_load_tmem(acc))
      end }
  end
  local function rules(target, mode, ...)
    local report = report_of(target, kernel(...), { mode = mode },
      tc.ones({ 128, 64 }, "f16"), tc.ones({ 64, 64 }, "f16"), tc.zeros({ 128, 64 }, "f32"))
    local list = {}
    for i, hazard in ipairs(report.hazards) do list[i] = hazard.severity .. " " .. hazard.rule end
    return list
  end

  both("is an error where an MMA adds to it", function(target)
    for _, mode in ipairs { "check", "random" } do
      assert.same({ target == "sm_90a" and "error undefined-accumulator" or "error undefined-tmem" },
        rules(target, mode, true))
    end
  end)

  both("is a lint where it is loaded, an error where it is stored", function(target)
    for _, mode in ipairs { "check", "random" } do
      assert.same({ target == "sm_90a" and "lint undefined-register" or "lint undefined-tmem-load",
        "error undefined-value" }, rules(target, mode, false, true))
    end
  end)

  both("is none where the first MMA does not", function(target)
    for _, mode in ipairs { "check", "random" } do assert.same({}, rules(target, mode, false)) end
  end)
end)
