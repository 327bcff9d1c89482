-- What is legal and likely to be wrong, as the recording alone shows it: in k:info(), and in reports of the modes that
-- check.
local tc = require "tcmma"
local helper = require "helper"

-- A kernel of one array (256, 64) of float32, or of o.args.
local function kernel(o, body)
  return tc.kernel{ name = "kernel", args = o.args or { tc.gmem({ 256, 64 }, tc.f32) }, grid = o.grid,
    grid_names = o.grid and { "m" }, cluster = o.cluster, cluster_names = o.cluster and { "cta" }, body = body }
end

local function line(level) return debug.getinfo(level or 2, "l").currentline end

-- it(title): the lints of the kernel are these patterns { rule, text }, in this order.
local function lints(title, o, expected, body)
  it(title, function()
    for _, target in ipairs(o.targets or { "sm_90a", "sm_100a" }) do
      local list = kernel(o, body):info{ target = target }.lints
      assert.are.equal(#expected, #list)
      for i, lint in ipairs(list) do
        assert.are.equal(expected[i][1], lint.rule)
        assert.is_truthy(lint.message:find(expected[i][2], 1, true), lint.message)
        assert.matches("lint_spec%.lua$", lint.lua_file)
      end
    end
  end)
end

local function outside(text) return { "gmem-outside", text } end

local function copied(ref, shape)
  local smem, loaded = tc.smem(shape or { 128, 64 }, tc.f32, { swizzle = "none" }), tc.barrier{}
  tc.copy_gmem_to_smem(ref, smem, loaded)
  tc.barrier_wait(loaded)
  return smem
end

local shape = { 128, 64 }

describe("An access of GMEM that lies outside of the array is a lint:", function()
  local array = "GMEM ref, float32 (256, 64), argument 1, whose dimension 0 ends at 256: it begins there at "

  lints("a tile behind it, by TMA", {}, { outside("tc.copy_gmem_to_smem: its tile lies outside of " .. array
    .. "256; all of it reads as zero") }, function(a) copied(a:tile({ 2, 0 }, shape)) end)
  lints("a tile behind it, loaded and stored", {},
    { outside("ref:load: its tile lies outside of " .. array .. "512; all of it reads as zero"),
      outside("ref:store: its tile lies outside of " .. array .. "256; all of it is dropped") },
    function(a) a:tile({ 2, 0 }, shape):store(a:tile({ 4, 0 }, shape):load()) end)
  lints("a tile behind it, fetched into L2", {}, { outside(array .. "256; nothing is fetched") },
    function(a) tc.async_prefetch(a:tile({ 2, 0 }, shape)) end)
  lints("a tile before it", { grid = { 2 } }, { outside ", always; all of it reads as zero" },
    function(a) copied(a:tile({ tc.axis_index "m" - 2, 0 }, shape)) end)
  lints("one that CTAs of the grid get to", { grid = { 3 } }, { outside(array .. "m * 128, which gets up to 256; ") },
    function(a) copied(a:tile({ tc.axis_index "m", 0 }, shape)) end)
  lints("one that a loop gets to that leaves out the first tile", {},
    { outside "which gets up to 64; all of it reads as zero" }, function(a)
      tc.range(1, 3, 1, function(i) a:at(tc.ds(0, 64), tc.ds(i * 32, 32)):load() end)
    end)
  lints("one that a CTA begins its loop with", { grid = { 2 } }, { outside "which gets up to 256; " },
    function(a)
      tc.range(2, function(i) a:tile({ tc.axis_index "m" * 4 + i, 0 }, { 64, 64 }):load() end)
    end)
  lints("one that a division and a rest get to", { grid = { 8 } },
    { outside "(m // 2) * 128, which gets up to 384; ", outside "which gets up to 64; " }, function(a)
      a:tile({ tc.axis_index "m" // 2, 0 }, shape):load()
      a:tile({ 0, tc.axis_index "m" % 3 }, { 128, 32 }):load()
    end)
  lints("one that a loop with a stop gets to every time", { grid = { 2 } }, { outside ", always; " }, function(a)
    local m = tc.axis_index "m"
    tc.loop(function()
      a:tile({ m + 2, 0 }, shape):load()
      tc.stop(m:ge(0))
    end)
  end)
  lints("a copy to GMEM that begins before it, on which the hardware traps", { grid = { 2 } },
    { outside "which gets down to -64; the hardware traps" }, function(a)
      local smem = tc.smem(shape, tc.f32, { swizzle = "none" })
      smem:store(tc.full(shape, 0, tc.f32))
      tc.commit_smem()
      tc.copy_smem_to_gmem(smem, a:at(tc.ds(tc.axis_index "m" * 64 - 64, 128), tc.all))
    end)
  lints("an element", { grid = { 300 } },
    { outside "ref:load: its element lies outside", outside "ref:store: its element" }, function(a)
      local m = tc.axis_index "m"
      a:at(m, 0):store(a:at(m, 1):load())
    end)
  lints("an element that a loop stores to", {}, { outside "ref:store: its element" }, function(a)
    tc.range(257, function(i) a:at(i, 0):store(0.0) end)
  end)
  lints("one behind a named dimension, whatever that is",
    { args = { tc.gmem({ "M", 64 }, tc.f32) } },
    { outside "whose dimension 0 ends at M: it begins there at M; all of it reads as zero",
      outside "at M + 8; all of it reads as zero", outside "at M * 128; all of it reads as zero" }, function(a)
      a:at(tc.ds(a.shape[1], 128), tc.all):load()
      a:at(tc.ds(a.shape[1] + 8, 128), tc.all):load()
      a:tile({ a.shape[1], 0 }, { 128, 64 }):load()
    end)

  lints("but not a tile that overhangs", { args = { tc.gmem({ 200, 60 }, tc.f32) }, grid = { 2 } }, {}, function(a)
    local m = tc.axis_index "m"
    copied(a:tile({ m, 0 }, shape))
    a:tile({ m, 0 }, shape):store(a:tile({ m, 0 }, shape):load())
  end)
  lints("but not pieces of a tile that overhangs, in a loop or unrolled", { args = { tc.gmem({ 128, 88 }, tc.f32) } },
    {}, function(a)
      tc.range(4, function(i) a:at(tc.all, tc.ds(i * 32, 32)):load() end)
      for i = 0, 3 do a:at(tc.all, tc.ds(i * 32, 32)):store(tc.full({ 128, 32 }, i, tc.f32)) end
    end)
  lints("but not one that a branch may leave out", { grid = { 4 } }, {}, function(a)
    local m = tc.axis_index "m"
    tc.when(m:lt(2), function() copied(a:tile({ m, 0 }, shape)) end)
    tc.when(m:lt(0), function() copied(a:tile({ m + 2, 0 }, shape)) end)
  end)
  lints("but not an element that the last turn of a loop loads ahead", {}, {}, function(a)
    local sum = tc.var(0.0)
    tc.range(256, function(i) sum:set(sum:get() + a:at(i + 1, 0):load()) end)
  end)
  lints("but not a tile that the last turn of a loop loads or fetches ahead of a line that reads inside", {}, {},
    function(a)
      copied(a:tile({ 0, 0 }, { 64, 64 }), { 64, 64 })
      tc.range(4, function(i)
        copied(a:tile({ i + 1, 0 }, { 64, 64 }), { 64, 64 })
        tc.async_prefetch(a:tile({ i + 2, 0 }, { 64, 64 }))
      end)
    end)
  lints("but not the neighbours of a tile, of which the first and the last CTA lack one", { grid = { 4 } }, {},
    function(a)
      local m = tc.axis_index "m"
      local sum = a:tile({ m, 0 }, { 64, 64 }):load()
      sum = sum + a:tile({ m - 1, 0 }, { 64, 64 }):load()
      sum = sum + a:tile({ m + 1, 0 }, { 64, 64 }):load()
      a:tile({ m, 0 }, { 64, 64 }):store(sum)
    end)
  lints("and neighbours are one where they are stored", { grid = { 4 } },
    { outside "which gets up to 256; all of it is" },
    function(a)
      local m = tc.axis_index "m"
      a:tile({ m, 0 }, { 64, 64 }):store(tc.full({ 64, 64 }, 0, tc.f32))
      a:tile({ m + 1, 0 }, { 64, 64 }):store(a:tile({ m, 0 }, { 64, 64 }):load())
    end)
  -- Three tiles, of two clusters of two CTAs.
  lints("but not one of a CTA because of which a grid has whole clusters",
    { args = { tc.gmem({ 384, 64 }, tc.f32) }, grid = { 2 }, cluster = { 2 } }, {}, function(a)
      local tile = a:tile({ tc.axis_index "m" * 2 + tc.axis_index "cta", 0 }, shape)
      tile:store(copied(tile):load())
    end)
  lints("and a whole cluster that lies outside is one",
    { args = { tc.gmem({ 384, 64 }, tc.f32) }, grid = { 3 }, cluster = { 2 } }, { outside "which gets up to 640; " },
    function(a) copied(a:tile({ tc.axis_index "m" * 2 + tc.axis_index "cta", 0 }, shape)) end)
  lints("and so is a tile that the place in the cluster alone chooses", { grid = { 2 }, cluster = { 4 } },
    { outside "which gets up to 384; " }, function(a) copied(a:tile({ tc.axis_index "cta", 0 }, shape)) end)
  lints("but not indices that belong together", { grid = { 4 } }, {}, function(a)
    local m = tc.axis_index "m"
    a:tile({ m - m // 2 * 2, 0 }, shape):load()
    a:tile({ (m * 3 + 1) % 2, 0 }, shape):load()
  end)
  lints("but not where the shape of the launch decides", { args = { tc.gmem({ "M", 64 }, tc.f32) }, grid = { 4 } }, {},
    function(a) a:tile({ tc.axis_index "m", 0 }, shape):load() end)
  lints("but not in a loop whose turns are recorded",
    { args = { tc.gmem({ 256, 64 }, tc.f32), tc.gmem({ "M" }, tc.f32) } }, {}, function(a, b)
      tc.range(b.shape[1], function(i) a:tile({ i, 0 }, shape):load() end)
    end)
end)

describe("An arrival that nobody waits for is a lint:", function()
  local function unheard(text) return { "arrival-not-awaited", text } end

  local function multiply(options, commit)
    return function(a)
      local x, acc = copied(a:tile({ 0, 0 }, { 128, 32 }), { 128, 32 }), tc.tmem({ 128, 128 }, tc.f32)
      local left = tc.smem({ 128, 32 }, tc.f32)
      local told, done = tc.barrier{ orders_tensor_core = true, name = "told" }, tc.barrier{ orders_tensor_core = true }
      left:store(x:load())
      tc.commit_smem()
      tc.mma(acc, left, left:T(), { accumulate = false, barrier = options.mma and told or nil })
      if commit then tc.commit_arrive(told) end
      tc.commit_arrive(done)
      tc.barrier_wait(done)
      if options.wait then tc.barrier_wait(told) end
      a:tile({ 0, 0 }, { 128, 64 }):store(tc.async_load_tmem(acc:at(tc.all, tc.ds(0, 64))))
    end
  end
  lints("of a commit", {}, { unheard 'tc.commit_arrive: nothing ever waits on barrier "told" (line ' },
    multiply({}, true))
  lints("of an mma", {}, { unheard 'tc.mma: nothing ever waits on barrier "told" (line ' }, multiply({ mma = true }))
  lints("but not where a wait is", {}, {}, multiply({ mma = true, wait = true }))
  lints("of threads", {}, { unheard 'tc.barrier_arrive: nothing ever waits on the barrier made at line ' }, function()
    tc.barrier_arrive(tc.barrier{})
  end)
  lints("but not where a branch may wait that is never taken", {}, {}, function()
    local free = tc.barrier{}
    for turn = 0, 0 do
      tc.when(turn > 0, function() tc.barrier_wait(free) end)
      tc.barrier_arrive(free)
    end
  end)
  lints("but not in another CTA's place", { cluster = { 2 } }, {}, function()
    local told = tc.barrier{}
    local cta = tc.axis_index "cta"
    tc.when(cta:eq(1), function() tc.barrier_arrive(tc.cluster_ref(told, 0)) end, function() tc.barrier_wait(told) end)
  end)
end)

describe("Lints of a recording", function()
  local wrong = kernel({}, function(a)
    tc.role{ name = "reader", warpgroups = 1 }(function() a:tile({ 2, 0 }, shape):load() end)
  end)
  local at = line() - 2

  it("stand in the report of the modes that check", function()
    for _, mode in ipairs{ "check", "random" } do
      local report = wrong:emulate({ target = "sm_100a", mode = mode }, tc.zeros({ 256, 64 }, tc.f32))
      assert.are.equal(1, #report.hazards)
      local lint = report.hazards[1]
      assert.are.equal("gmem-outside", lint.rule)
      assert.are.equal("lint", lint.severity)
      assert.are.equal("reader", lint.role)
      assert.are.equal(at, lint.lua_line)
      assert.are.equal(1, lint.count)
      assert.matches("%[gmem%-outside, lint%] ref:load: .-\n    fix: [^\n]+\n  times 1, [^\n]*lint_spec%.lua:" .. at,
        report:text())
    end
    local report = wrong:emulate({ target = "sm_100a", mode = "fast" }, tc.zeros({ 256, 64 }, tc.f32))
    assert.are.same({}, report.hazards)
  end)

  it("do not stop a kernel: the tile reads as zero", function()
    local out = tc.full({ 256, 64 }, 7, tc.f32)
    kernel({}, function(a) a:tile({ 0, 0 }, shape):store(a:tile({ 2, 0 }, shape):load()) end)(out)
    assert.are.equal(0, out:get(5, 5))
    assert.are.equal(7, out:get(200, 5))
  end)

  it("are shown by k:info(), of an open recording too", function()
    local info = wrong:info{ target = "sm_100a" }
    assert.matches(", 1 lint;", tostring(info))
    assert.matches("^%[gmem%-outside, lint%] at [^\n]*lint_spec%.lua:" .. at .. ": ref:load: ", tostring(info.lints[1]))
    helper.recording({ args = { tc.gmem({ 256, 64 }, tc.f32) }, target = "sm_100a" }, function(k, a)
      tc.barrier_arrive(tc.barrier{}) -- the wait may still come
      a:tile({ 2, 0 }, shape):load()
      local list = k:info{ target = "sm_100a" }.lints
      assert.are.equal(1, #list)
      assert.are.equal("gmem-outside", list[1].rule)
    end)
  end)
end)
