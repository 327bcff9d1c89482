-- One barrier a piece of an epilogue: the barrier of commit_smem answers the wait_smem_to_gmem after it where that is
-- as good, and only there. Texts are looked at, and run in the modes that find accesses out of order.
local tc = require "tcmma"
local kernels = require "compiler_kernels"

local ROWS, COLUMNS = 128, 32

-- A role of `o.warpgroups` that moves `o.pieces` tiles through `o.slots` of SMEM. Before a slot is used again at most
-- o.wait groups are outstanding. o.between(p, i): recorded between the copy and the wait; o.store(p, i, x): the store.
local function pipeline(o)
  local pieces, slots = o.pieces or 6, o.slots or 2
  local store = o.store or function(p, i, x) p.staged[i % slots]:store(x) end
  return tc.kernel{
    name = "pipeline",
    args = { tc.gmem({ pieces * ROWS, COLUMNS }, tc.float32), tc.gmem({ pieces * ROWS, COLUMNS }, tc.float32) },
    grid = { 1 }, grid_names = { "x" },
    body = function(src, out)
      local p = { src = src, out = out, staged = tc.smem({ slots, ROWS, COLUMNS }, tc.float32, { swizzle = 128 }),
        other = tc.smem({ ROWS, COLUMNS }, tc.float32, { swizzle = 128 }) }
      tc.role{ name = "move", warpgroups = o.warpgroups or 1 }(function()
        local function piece(i)
          if o.between then o.between(p, i) end
          tc.wait_smem_to_gmem(o.wait or 1, o.options)
          store(p, i, src:tile({ i, 0 }, { ROWS, COLUMNS }):load())
          tc.commit_smem()
          local copies = o.copies or { {} }
          local rows = ROWS // #copies
          for j, options in ipairs(copies) do
            tc.copy_smem_to_gmem(p.staged[i % slots]:at(tc.ds((j - 1) * rows, rows), tc.all),
              out:tile({ i * #copies + j - 1, 0 }, { rows, COLUMNS }), options)
          end
        end
        if o.recorded then
          tc.range(pieces, piece)
        else
          for i = 0, pieces - 1 do piece(i) end
        end
        tc.wait_smem_to_gmem(0)
      end)
    end,
  }, pieces
end

local function count(text, pattern)
  return (select(2, text:gsub(pattern, "")))
end

-- Barriers of the role in the text, after it ran right in every mode.
local function barriers(o, target)
  local kernel, pieces = pipeline(o)
  local src = tc.randint({ pieces * ROWS, COLUMNS }, tc.float32, { low = -9, high = 9, seed = 3 })
  for _, mode in ipairs{ "check", "random", "random" } do
    local out = tc.zeros({ pieces * ROWS, COLUMNS }, tc.float32)
    local run = { target = target, mode = mode }
    if mode == "random" then run.seed = math.random(1 << 30) end
    kernels.run(kernel, run, src, out)
    assert.equal(0, (tc.max_error(out, src)))
  end
  local text = kernel:ptx{ target = target }
  return count(text, "\n[^\n]*bar%.sync %d+, %d+;"), text
end

for _, target in ipairs{ "sm_90a", "sm_100a" } do
  describe("an epilogue on " .. target, function()
    it("has a barrier a piece, and one at each end", function()
      local n, text = barriers({}, target)
      assert.equal(6 + 2, n)
      -- Five waits at a commit's barrier, the script's last one, and that of the role's end.
      assert.equal(5 + 1 + 1, count(text, "wait_group%.read 0;"))
      assert.equal(1, count(text, "wait_group%.read 1;"))
    end)

    it("of two warpgroups too", function()
      assert.equal(6 + 2, (barriers({ warpgroups = 2 }, target)))
    end)

    it("with three slots lets one more be read", function()
      local n, text = barriers({ slots = 3, wait = 2 }, target)
      assert.equal(6 + 2, n)
      assert.equal(5, count(text, "wait_group%.read 1;"))
    end)

    it("with more slots than it needs keeps the depth", function()
      local n, text = barriers({ slots = 3, wait = 1 }, target)
      assert.equal(6 + 2, n)
      assert.equal(0, count(text, "wait_group%.read 2;"))
    end)

    it("with one slot waits before the store, for no earlier barrier can know", function()
      assert.equal(2 * 6 + 1, (barriers({ slots = 1, wait = 0 }, target)))
    end)

    it("counts every group between the two", function()
      assert.equal(2 * 6 + 1, (barriers({ copies = { {}, {} } }, target)))
      assert.equal(6 + 2, (barriers({ copies = { {}, {} }, wait = 2 }, target)))
    end)

    it("does not count copies that close no group", function()
      assert.equal(6 + 2, (barriers({ copies = { { commit_group = false }, {} } }, target)))
    end)

    it("in a recorded loop keeps both, for the first turn has no commit before it", function()
      assert.equal(2 + 1, (barriers({ recorded = true }, target)))
    end)

    it("may compute between the copy and the wait, and read other SMEM", function()
      local values = {}
      local o = {
        between = function(p, i) values[i] = p.src:tile({ i, 0 }, { ROWS, COLUMNS }):load() * 2 end,
        store = function(p, i) p.staged[i % 2]:store(values[i] / 2) end,
      }
      assert.equal(6 + 2, (barriers(o, target)))
    end)

    it("has a barrier where it stores to what it has read since", function()
      local held
      local o = {}
      o.between = function(p, i) held = i > 0 and p.staged[(i - 1) % 2]:load() or nil end
      o.store = function(p, i, x)
        if held then x = x + (held - held) end
        p.staged[i % 2]:store(x)
      end
      barriers(o, target)
    end)

    it("keeps the wait after a store, which may need its barrier", function()
      local o = { between = function(p, i) p.other:store(p.src:tile({ i, 0 }, { ROWS, COLUMNS }):load()) end }
      assert.equal(2 * 6 + 1, (barriers(o, target)))
    end)

    it("keeps a wait for writes that the kernel can see", function()
      local kernel = tc.kernel{
        name = "seen", args = { tc.gmem({ 2 * ROWS, COLUMNS }, tc.float32) }, grid = { 1 }, grid_names = { "x" },
        body = function(out)
          local staged = tc.smem({ 2, ROWS, COLUMNS }, tc.float32, { swizzle = 128 })
          tc.role{ name = "move", warpgroups = 1 }(function()
            for i = 0, 1 do
              tc.wait_smem_to_gmem(1)
              staged[i]:store(out:tile({ i, 0 }, { ROWS, COLUMNS }):load() + 1)
              tc.commit_smem()
              tc.copy_smem_to_gmem(staged[i], out:tile({ i, 0 }, { ROWS, COLUMNS }))
            end
            tc.wait_smem_to_gmem(0)
          end)
        end,
      }
      local text = kernel:ptx{ target = target }
      assert.equal(5, count(text, "\n[^\n]*bar%.sync %d+, %d+;"))
      assert.equal(2, count(text, "wait_group 1;"))
    end)

    it("that waits for too little is found out", function()
      local kernel, pieces = pipeline{ wait = 2 }
      local src = tc.zeros({ pieces * ROWS, COLUMNS }, tc.float32)
      assert.error_matches(function()
        kernels.run(kernel, { target = target, mode = "check" }, src, tc.zeros({ pieces * ROWS, COLUMNS }, tc.float32))
      end, "the bulk store may still read its source")
    end)
  end)
end
