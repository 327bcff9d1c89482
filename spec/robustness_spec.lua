-- What must not crash, hang or leak: failing allocations, several states, exit with live objects,
-- collections at bad moments, callbacks that fail or yield, objects whose kernel is gone.
local process = require "process"
local tc = require "tcmma"

local cc = os.getenv "CC" or "cc"
local include = os.getenv "LUA_INCDIR" or "/usr/include/lua5.4"
local folder

setup(function() folder = process.folder() end)
teardown(function() process.remove(folder) end)

local function run(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local output = pipe:read "a"
  return pipe:close(), output
end

local paths = ("LUA_PATH='%s' LUA_CPATH='%s' TCMMA_DEVICE=emulator"):format(package.path, package.cpath)
local sanitized = os.getenv "SANITIZED" -- its allocator and LD_PRELOAD do not go with these

describe("an allocation that fails", function()
  if sanitized then return end

  setup(function()
    local ok, output = run(("%s -shared -fPIC -O1 -D_GNU_SOURCE -I%s -o %s/fail_malloc.so "
      .. "spec/robustness/fail_malloc.c -ldl"):format(cc, include, folder))
    assert(ok, output)
  end)

  for _, scenario in ipairs { "load", "record", "kernel", "run", "module", "arrays" } do
    local function try(stride)
      local ok, output = run(("env %s LUA_CPATH='%s;%s/?.so' LD_PRELOAD=%s/fail_malloc.so lua5.4 "
        .. "spec/robustness/fail_everywhere.lua %s %d"):format(paths, package.cpath, folder, folder, scenario, stride))
      assert(ok, output)
      assert.matches("no crash, no leak", output)
    end

    it("in the scenario '" .. scenario .. "' is an error without a leak", function() try(7) end)
    it("anywhere in the scenario '" .. scenario .. "' is an error without a leak #slow", function() try(1) end)
  end
end)

describe("several states in one process", function()
  if sanitized then return end

  local function build()
    local ok, output = run(("%s -O1 -I%s -o %s/states spec/robustness/states.c -llua5.4"):format(cc, include, folder))
    assert(ok, output)
  end

  it("are closed in any order, and nothing stays", function()
    build()
    local ok, output = run(("env %s %s/states 200 spec/robustness/live.lua"):format(paths, folder))
    assert(ok, output)
    local before, after = output:match "^(%d+) (%d+)"
    assert(tonumber(after) - tonumber(before) < 512, output)
  end)

  it("are clean under valgrind #slow", function()
    if not run "command -v valgrind" then pending "valgrind is not installed" return end
    build()
    local ok, output = run(("env %s valgrind -q --leak-check=full --errors-for-leak-kinds=definite "
      .. "--error-exitcode=9 %s/states 2 spec/robustness/live.lua"):format(paths, folder))
    assert(ok, output)
  end)
end)

describe("exit with live objects", function()
  local makers = {
    [[kernel = tc.kernel { name = "k", args = { tc.gmem({ 4 }, "f32") }, body = function(a) a[0] = 1 end }]],
    [[array = tc.zeros({ 4 }, "f32") view = array:reshape { 2, 2 }]],
    [[module = tc.ptx ".version 8.0\n.target sm_100a\n.address_size 64\n.visible .entry f() { ret; }\n"
      f = module:kernel "f" f:launch {}]],
    [[stream, event = tc.device():stream(), tc.device():event()]],
  }
  local open = [[open, b = tc.record { args = { tc.gmem({ 4 }, "f32") } } v = tc.var(0)]]
  local function permutations(n)
    if n == 0 then return { {} } end
    local list = {}
    for _, shorter in ipairs(permutations(n - 1)) do
      for at = 1, n do
        local longer = table.move(shorter, 1, n - 1, 1, {})
        table.insert(longer, at, n)
        list[#list + 1] = longer
      end
    end
    return list
  end

  for _, ending in ipairs { "", "os.exit(0)", "os.exit(0, true)", "error 'at the end'" } do
    it(("in every order, by %s"):format(ending == "" and "the end of the script" or ending), function()
      for _, order in ipairs(permutations(#makers)) do
        local code = { [[local tc = require "tcmma" tc.use "emulator"]] }
        for _, i in ipairs(order) do code[#code + 1] = makers[i] end
        code[#code + 1] = "kernel(array)"
        code[#code + 1] = order[1] % 2 == 0 and open or ""
        code[#code + 1] = "io.write 'done' " .. ending
        local output, ok = process.run(table.concat(code, "\n"))
        assert.matches("done", output)
        assert.equal(not ending:find "error", ok or false, output)
        assert.not_matches("egmentation", output)
      end
    end)
  end
end)

describe("a collection at every moment", function()
  local function stress(fn)
    local steps = 0
    debug.sethook(function()
      steps = steps + 1
      collectgarbage(steps % 8 == 0 and "collect" or "step")
    end, "", 3)
    local ok, message = xpcall(fn, debug.traceback)
    debug.sethook()
    assert(ok, message)
  end

  it("does not disturb recording and launching", function()
    local a, out = tc.randn({ 128, 64 }, "f16", { seed = 1 }), tc.zeros({ 128, 128 }, "f32")
    stress(function()
      local k = tc.kernel { name = "k", args = { tc.gmem({ 128, 64 }, "f16"), tc.gmem({ 128, "N" }, "f32") },
        grid = function() collectgarbage() return { 1 } end, grid_names = { "m" },
        body = function(x, y)
          local s, acc = tc.smem({ 128, 64 }, "f16"), tc.tmem({ 128, 128 }, "f32")
          local loaded, done = tc.barrier {}, tc.barrier { orders_tensor_core = true }
          tc.copy_gmem_to_smem(x, s, loaded)
          tc.barrier_wait(loaded)
          tc.mma(acc, s, s:T(), { barrier = done, accumulate = false })
          tc.barrier_wait(done)
          y:tile({ 0, 0 }, { 128, 128 }):store(tc.async_load_tmem(acc))
        end }
      k(a, out)
      assert(k:emulate({ mode = "check" }, a, out).completed)
    end)
    assert(tc.allclose(out, tc.reference.matmul(a, a, { transpose_b = true })))
  end)

  it("does not collect what a child needs", function()
    local view = tc.ones({ 8, 4 }, "f32"):reshape { 32 }
    local f = tc.ptx(".version 8.0\n.target sm_100a\n.address_size 64\n.visible .entry f() { ret; }\n"):kernel "f"
    local s
    do
      local _ = tc.record {}
      s = tc.smem({ 2, 8, 64 }, "f16")[1]
    end
    for _ = 1, 3 do collectgarbage() end
    assert.equal(1, view:get(31))
    f:launch {}
    assert.matches("SMEM ref, float16 %(8, 64%)", tostring(s))
    s = nil -- luacheck: ignore
    local k = tc.record {} -- the recording that nobody holds any more is given up
    k:close()
  end)
end)

describe("a callback", function()
  local function bodies(fn)
    return {
      kernel = function() tc.kernel { body = fn } end,
      range = function() tc.range(4, fn) end,
      loop = function() tc.loop(fn) end,
      when = function() tc.when(tc.axis_index(0):gt(0), fn) end,
      otherwise = function() tc.when(tc.axis_index(0):gt(0), function() end, fn) end,
      role = function() tc.role { name = "r", warps = 1 }(fn) end,
    }
  end

  it("that raises anything leaves the recording as it was", function()
    for _, thrown in ipairs { "text", 17, { code = 1 }, false } do
      for name, call in pairs(bodies(function() tc.smem({ 8, 64 }, "f16") error(thrown, 0) end)) do
        local k = name ~= "kernel" and tc.record { grid = { 4 } }
        local before = k and k:ops()
        local ok, message = pcall(call)
        assert.is_false(ok)
        assert.equal(thrown, message)
        if k then
          local text = k:ops()
          if name == "role" then text = text:gsub("role[^\n]*\n", "") before = before:gsub("role[^\n]*\n", "") end
          assert.equal(before, text, name)
          k:close()
        end
      end
    end
  end)

  it("cannot yield out of a recording", function()
    for name, call in pairs(bodies(function() coroutine.yield(1) end)) do
      local k = name ~= "kernel" and tc.record { grid = { 4 } }
      local thread = coroutine.create(call)
      local ok, message = coroutine.resume(thread)
      assert.is_false(ok, name)
      assert.matches("attempt to yield across a C%-call boundary", message)
      if k then
        assert.equal(0, #k)
        tc.range(2, function(i) tc.when(i:gt(0), function() end) end)
        k:finish()
        k:close()
      end
    end
  end)

  it("may use coroutines of its own", function()
    local k = tc.kernel { args = { tc.gmem({ 8 }, "i32") }, body = function(a)
      local generator = coroutine.wrap(function()
        for i = 0, 7 do a[i] = i * i coroutine.yield() end
      end)
      for _ = 1, 8 do generator() end
    end }
    local a = tc.zeros({ 8 }, "i32")
    k(a)
    assert.same({ 0, 1, 4, 9, 16, 25, 36, 49 }, a:totable())
  end)

  it("cannot finish or close the kernel that it records", function()
    for _, method in ipairs { "finish", "close" } do
      local k = tc.record { grid = { 4 } }
      local ok, message = pcall(tc.range, 2, function() k[method](k) end)
      assert.is_false(ok)
      assert.matches("inside a block", message)
      k:close()
    end
  end)
end)

it("A body that a constant condition chooses may close the kernel", function()
  for _, condition in ipairs { true, false } do
    local k = tc.record { grid = { 4 } }
    local close = function() k:close() end
    tc.when(condition, close, close)
    assert.is_false(pcall(tc.when, condition, close, close))
  end
end)

describe("an object of a closed kernel", function()
  it("raises in every method and operator", function()
    local k, a = tc.record { args = { tc.gmem({ 128, 64 }, "f16") } }
    local objects = { a, tc.smem({ 8, 64 }, "f16"), tc.tmem({ 128, 64 }, "f32"), tc.barrier {}, tc.axis_index(0),
      tc.var(0), tc.full({ 128, 64 }, 0, "f32") }
    k:close()
    for _, object in ipairs(objects) do
      for name, method in pairs(getmetatable(object).__methods) do
        local ok, message = pcall(method, object, 1, 1)
        assert.is_false(ok, name)
        assert.equal("string", type(message))
      end
      for _, operator in ipairs { function(x) return x + 1 end, function(x) return -x end, function(x) return x[0] end,
        function(x) x[0] = 1 end, function(x) return #x end, function(x) return x < x end } do
        local ok, message = pcall(operator, object)
        if not ok then assert.equal("string", type(message)) end
      end
      assert.matches("of a closed kernel", tostring(object))
    end
    assert.is_false(pcall(k.ops, k))
    k:close()
  end)

  it("of another kernel is refused by name", function()
    local first = tc.record { name = "first" }
    local s = tc.smem({ 128, 64 }, "f16")
    first:finish()
    local second = tc.record { name = "second" }
    local ok, message = pcall(tc.mma, tc.tmem({ 128, 128 }, "f32"), s, s)
    assert.is_false(ok)
    assert.matches("belongs to kernel 'first'", message)
    second:close()
  end)
end)
