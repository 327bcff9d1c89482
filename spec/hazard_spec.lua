-- Hazards: each way to spoil a correct kernel must give the rule that names it; the kernel itself none.
-- The numbers are those of the catalogue of faults: A synchronisation, B proxies and groups, C tensor
-- memory, D memory and launch.
package.path = (debug.getinfo(1, "S").source:match "^@(.*/)" or "./") .. "?.lua;" .. package.path
local mutation = require "hazard_mutation"
local rules_of = mutation.rules_of
local drop, drop_wait, replace = mutation.drop, mutation.drop_wait, mutation.replace
local insert_before, move_before = mutation.insert_before, mutation.move_before

local BLACKWELL = { target = "sm_100a" }
local HOPPER = { target = "sm_90a" }
local PAIR = { target = "sm_100a", cluster = 2 }
local HOPPER_PAIR = { target = "sm_90a", cluster = 2 }

local EPILOGUE, LOAD, MMA = "// role epilogue: warps", "// role load: warp", "// role mma: warp"
local FULL, EMPTY, ACCUMULATED, DRAINED = "+98304], ", "+98320], ", "+98336], ", "+98352], "

-- The parity operand of the first wait for `barrier`.
local function parity_of(text, barrier)
  return assert(text:match(barrier:gsub("[%+%]]", "%%%0") .. "(%%r%d+)[;,]"))
end

local function one_way(text)
  return (text:gsub("%.multicast::cluster%.b64 (%[%%r%d+%+98320%]), %%h%d", ".b64 %1"))
end

local function without_cluster_barrier(nth)
  return function(text)
    return drop(drop(text, "barrier.cluster.arrive", { nth = nth }), "barrier.cluster.wait", { nth = nth })
  end
end

-- { number, what is spoilt, kernel, how, rules, options }: the first rule names the fault, further ones follow from it;
-- options.likely: what a deadlock alone says of its cause.
local catalogue = {
  { "A1", "the MMA does not wait for the copies", BLACKWELL,
    function(t) return drop_wait(t, FULL, { behind = MMA }) end, { "copy-not-awaited", "mbarrier-over-arrival" } },
  { "A2", "the producer does not wait for the MMA", BLACKWELL,
    function(t) return drop_wait(t, EMPTY, { behind = LOAD }) end, { "mbarrier-over-arrival" } },
  { "A3", "the producer begins with the wrong parity", BLACKWELL,
    function(t)
      local label, parity = t:match "(L%d+):\n[^\n]*%+98320%], (%%r%d+);"
      return insert_before(t, label .. ":", ("xor.b32 %s, %s, 1;"):format(parity, parity), { behind = LOAD })
    end, { "deadlock" }, { likely = "nobody has arrived on any barrier that is waited for" } },
  { "A4", "the MMA's parity never flips", BLACKWELL,
    function(t)
      local parity = parity_of(t:match(MMA .. ".*"), FULL)
      return replace(t, FULL .. parity, parity, "0", { behind = MMA })
    end, { "mma-not-awaited", "copy-not-awaited" } },
  { "A4", "the parity of a warpgroup never flips", HOPPER,
    function(t) return (t:gsub("(try_wait[^\n]*%+98304%], )%%r%d+", "%10")) end, { "wgmma-not-awaited", "deadlock" } },
  { "A5", "the producer's parity flips at every step", BLACKWELL,
    function(t) return replace(t, "selp.b32 %r245", "%r244, %r243, %p9", "%r244, %r244, %p9") end,
    { "mbarrier-parity-step", "deadlock" } },
  { "A6", "the producer begins with the second stage", BLACKWELL,
    function(t) return replace(t, "mov.b32 %r223, 0", "0", "1") end, { "mbarrier-parity-step", "deadlock" } },
  { "A7", "a barrier counts too few", BLACKWELL,
    function(t) return replace(t, "[%smem+98304], 2", "], 2", "], 1") end, { "mbarrier-over-arrival" } },
  { "A8", "a barrier counts too many", BLACKWELL,
    function(t) return replace(t, "[%smem+98304], 2", "], 2", "], 3") end, { "deadlock" },
    { likely = "1 of 3 arrivals on mbarrier at shared 0x18400 are missing, and no thread" } },
  { "A9", "every lane arrives", BLACKWELL,
    function(t) return replace(t, "@%elected_epilogue mbarrier.arrive", "@%elected_epilogue", "") end,
    { "mbarrier-many-phases", "deadlock" } },
  { "A10", "a barrier is not initialised", BLACKWELL,
    function(t) return drop(t, "mbarrier.init.shared::cta.b64 [%smem+98336]") end, { "mbarrier-not-initialised" } },
  { "A11", "nothing between init and use", BLACKWELL,
    function(t) return drop(t, "bar.sync 0") end, { "shared-race", "mbarrier-init-unordered" } },
  { "A12", "init is not fenced for the cluster", PAIR,
    function(t) return drop(t, "fence.mbarrier_init") end, { "mbarrier-init-fence" } },
  { "A12", "the cluster does not meet behind init", PAIR, without_cluster_barrier(1), { "mbarrier-init-unordered" } },
  { "A13", "a barrier is initialised while threads wait", BLACKWELL,
    function(t)
      return insert_before(t, "tcgen05.ld", "@%leader_epilogue mbarrier.init.shared::cta.b64 [%smem+98304], 2;")
    end, { "mbarrier-reinitialised" } },
  { "A14", "a barrier lies in a stage", BLACKWELL,
    function(t) return (t:gsub("%+98336%]", "]"):gsub("%+98344%]", "+8]")) end, { "mbarrier-overwritten" } },
  { "A15", "too few bytes are expected", BLACKWELL,
    function(t) return replace(t, "expect_tx", "16384", "8192", { nth = 2 }) end, { "mbarrier-tx", "deadlock" } },
  { "A16", "too many bytes are expected", BLACKWELL,
    function(t) return replace(t, "expect_tx", "16384", "16388", { nth = 2 }) end, { "mbarrier-tx", "deadlock" } },
  { "A17", "bytes are not expected", BLACKWELL,
    function(t)
      t = replace(t, "expect_tx", ".expect_tx", "", { nth = 2 })
      return (t:gsub("(mbarrier%.arrive%.shared::cta%.b64 _, %[%%r%d+%+98304%]), 16384", "%1"))
    end, { "mbarrier-wrong-phase", "copy-not-awaited", "mbarrier-tx", "deadlock" } },
  { "A18", "bytes are expected behind the last arrival", BLACKWELL,
    function(t)
      t = replace(t, "expect_tx", ".expect_tx", "", { nth = 2, behind = LOAD })
      t = replace(t, "mbarrier.arrive.shared::cta.b64 _, [%r231+98304], 16384", ", 16384", "", { behind = LOAD })
      return insert_before(t, "L20:", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r231+98304], 16384;")
    end, { "mbarrier-late-expect" } },
  { "A20", "the commit arrives at the wrong barrier", BLACKWELL,
    function(t) return replace(t, "tcgen05.commit", "98320", "98304") end, { "deadlock" },
    { likely = "it may be meant for another barrier" } },
  { "A21", "the commit stands before the last MMA", BLACKWELL,
    function(t) return move_before(t, "tcgen05.commit", "tcgen05.mma", { target_nth = 4 }) end, { "mma-not-awaited" } },
  { "A22", "another thread commits", BLACKWELL,
    function(t)
      t = replace(t, ".reg .pred %first", "%first", "%other, %first")
      t = replace(t, "tcgen05.commit", "tcgen05", "@%other tcgen05")
      t = move_before(t, "@%other", "bar.warp.sync", { target_behind = "tcgen05.mma" })
      return insert_before(t, "@%other", "setp.eq.u32 %other, %lane, 1;")
    end, { "mma-not-awaited" } },
  { "A23", "the arrivals for the peer go to the own barrier", HOPPER_PAIR,
    function(t)
      return replace(t, "mapa.shared::cluster", "mapa.shared::cluster.u32 %r12, %smem, %lane", "mov.b32 %r12, %smem")
    end, { "copy-not-awaited", "mbarrier-tx", "deadlock" } },
  { "A24", "the arrivals for the peer are for the own CTA", HOPPER_PAIR,
    function(t) return (t:gsub("arrive%.shared::cluster", "arrive.release.cta.shared::cluster")) end,
    { "mbarrier-scope" } },
  { "A25", "the cluster's barrier is relaxed", PAIR,
    function(t) return replace(t, "barrier.cluster.arrive", "arrive", "arrive.relaxed") end,
    { "mbarrier-init-unordered" } },
  { "A26", "warps give a barrier different counts", BLACKWELL,
    function(t)
      return (replace(t, "bar.sync 1, 128", "128", "%count"):gsub("mov.u32 %%thread, %%tid.x;",
        "%0\n.reg .b32 %%count; .reg .pred %%half; setp.lt.u32 %%half, %%thread, 64;"
          .. " selp.u32 %%count, 96, 128, %%half;"))
    end, { "barrier-count" } },
  { "A27", "the barrier of all in the branch of some", BLACKWELL,
    function(t) return insert_before(t, "tcgen05.ld", "bar.sync 0;") end, { "deadlock" },
    { likely = "threads wait for barrier 0 at PTX line %d+ and at PTX line %d+" } },
  { "A28", "a CTA ends while its peer reaches into it", PAIR, without_cluster_barrier(2), { "exited-cta" } },
  { "A28", "a CTA of Hopper ends while its peer reaches into it", HOPPER_PAIR, without_cluster_barrier(2),
    { "exited-cta" } },
  { "B29", "no proxy fence before the store", BLACKWELL,
    function(t) return drop(t, "fence.proxy.async") end, { "proxy-fence" } },
  { "B29", "no proxy fence before the store of Hopper", HOPPER,
    function(t) return drop(t, "fence.proxy.async") end, { "proxy-fence" } },
  { "B30", "only the thread that stores fences", BLACKWELL,
    function(t) return replace(t, "fence.proxy.async", "fence", "@%leader_epilogue fence") end, { "proxy-fence" } },
  { "B34", "the buffer is written while a store reads it", BLACKWELL,
    function(t) return drop(t, "cp.async.bulk.wait_group.read") end, { "bulk-read-not-awaited" } },
  { "B36", "the CTA ends while a store reads its memory", BLACKWELL,
    function(t)
      local _, waits = t:gsub("wait_group%.read 0", "")
      for nth = waits, waits - 1, -1 do t = drop(t, "wait_group.read 0", { nth = nth }) end
      return t
    end, { "bulk-read-at-exit" } },
  { "B37", "the wait allows one group too many", BLACKWELL,
    function(t) return replace(t, "wait_group.read 1", "1", "2") end, { "bulk-read-not-awaited" } },
  { "B38", "the stores are not committed", BLACKWELL,
    function(t) return (t:gsub("cp.async.bulk.commit_group;", "")) end,
    { "bulk-read-not-awaited", "bulk-read-at-exit" } },
  { "B41", "the accumulator is read before the wait", HOPPER,
    function(t) return drop(t, "wgmma.wait_group.sync.aligned 0", { nth = 2 }) end,
    { "wgmma-register", "wgmma-not-awaited" } },
  { "B42", "no wgmma.fence", HOPPER, function(t) return drop(t, "wgmma.fence") end, { "wgmma-fence" } },
  { "B43", "the accumulator is written in flight", HOPPER,
    function(t)
      local register = t:match "wgmma.mma_async[^\n]*{(%%r%d+),"
      return insert_before(t, "wgmma.commit_group", ("add.u32 %s, %s, 0;"):format(register, register))
    end, { "wgmma-register" } },
  { "B44", "the stage is released while wgmma reads it", HOPPER,
    function(t) return replace(t, "wgmma.wait_group.sync.aligned 1", "aligned 1", "aligned 2") end,
    { "wgmma-not-awaited" } },
  { "B45", "wgmma is not committed", HOPPER,
    function(t) return drop(t, "wgmma.commit_group") end, { "wgmma-not-awaited", "wgmma-register" } },
  { "C46", "the epilogue does not wait for the MMA", BLACKWELL,
    function(t) return drop_wait(t, ACCUMULATED, { behind = EPILOGUE }) end,
    { "undefined-tmem-load", "tmem-race", "undefined-value", "mma-not-awaited", "tcgen05-fence-before" } },
  { "C47", "no fence behind the wait for the accumulator", BLACKWELL,
    function(t) return drop(t, "fence::after", { behind = EPILOGUE }) end, { "tcgen05-fence-after" } },
  { "C48", "no fence before the accumulator is handed back", BLACKWELL,
    function(t) return drop(t, "fence::before", { behind = EPILOGUE }) end, { "tcgen05-fence-before" } },
  { "C49", "registers are used before tcgen05.wait::ld", BLACKWELL,
    function(t) return drop(t, "tcgen05.wait::ld") end, { "tcgen05-ld-not-awaited" } },
  { "C50", "the accumulator is given back before tcgen05.wait::ld", BLACKWELL,
    function(t)
      return move_before(t, "@%elected_epilogue mbarrier.arrive", "tcgen05.wait::ld", { target_nth = 2 })
    end, { "tcgen05-fence-before", "tmem-race" } },
  { "C52", "the MMA overwrites an accumulator in use", BLACKWELL,
    function(t) return drop_wait(t, DRAINED, { behind = MMA }) end, { "tmem-race" } },
  { "C53", "tensor memory is not freed", BLACKWELL, function(t) return drop(t, "tcgen05.dealloc") end,
    { "tmem-leak" } },
  { "C54", "other columns are freed than allocated", BLACKWELL,
    function(t) return replace(t, "tcgen05.dealloc", "256", "128") end, { "tmem-dealloc" } },
  { "C54", "tensor memory is freed twice", BLACKWELL,
    function(t) return (t:gsub("tcgen05%.dealloc[^\n]*", "%0 %0")) end, { "tmem-dealloc" } },
  { "C55", "tensor memory is freed before its last use", BLACKWELL,
    function(t) return move_before(t, "tcgen05.dealloc", "L_done:") end,
    { "tcgen05-fence-before", "tmem-race", "tmem-unallocated" } },
  { "C56", "allocation after the permit is given up", BLACKWELL,
    function(t)
      return insert_before(t, "L_ready:", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%smem+98376], 32;")
    end, { "tmem-relinquished" } },
  { "C57", "48 columns", BLACKWELL, function(t) return replace(t, "tcgen05.alloc", "256", "48") end,
    { "tmem-columns" } },
  { "C57", "more columns than there are", BLACKWELL,
    function(t) return replace(t, "tcgen05.alloc", "256", "1024") end, { "tmem-columns" } },
  { "C58", "tensor memory is taken to begin at column 0", BLACKWELL,
    function(t) return replace(t, "ld.shared.b32 %tmem", "ld.shared.b32 %tmem, [%smem+98368]", "mov.b32 %tmem, 0") end,
    { "tmem-unallocated" }, { mode = "random", seed = 4 } },
  { "C59", "the address of tensor memory is read before it is there", BLACKWELL,
    function(t) return move_before(t, "ld.shared.b32 %tmem", "bar.sync 0") end, { "shared-race" } },
  { "C60", "another warp's lanes", BLACKWELL,
    function(t) return insert_before(t, "tcgen05.ld", "add.u32 %tmem_epilogue, %tmem_epilogue, 0x200000;") end,
    { "tmem-window" } },
  { "C61", "columns beyond the allocation", BLACKWELL,
    function(t) return insert_before(t, "tcgen05.ld", "add.s32 %r74, %r74, 224;") end,
    { "mma-not-awaited", "undefined-tmem-load", "tmem-unallocated" } },
  { "C62", "the first MMA accumulates", BLACKWELL,
    function(t) return (t:gsub("(tcgen05%.mma[^\n]*), %%p%d+;", "%1, 1;", 1)) end, { "undefined-tmem" } },
  { "C63", "another type of B than of A", BLACKWELL,
    function(t) return (t:gsub("0x8210010", "0x8210110")) end, { "instruction-descriptor" } },
  { "C64", "an N of 264", BLACKWELL,
    function(t) return (t:gsub("0x8210010", "0x8430010")) end, { "instruction-descriptor" } },
  { "C65", "the descriptor has the address and not its sixteenth", BLACKWELL,
    function(t) return replace(t, "shr.u32 %r265, %r264, 4", "shr.u32 %r265, %r264, 4", "mov.b32 %r265, %r264") end,
    { "copy-not-awaited", "mma-not-awaited" } },
  { "C65", "the descriptor lacks its constant bits", BLACKWELL,
    function(t) return (t:gsub("0x40004040", "0x40000040")) end, { "smem-descriptor" } },
  { "C66", "a tile that is not aligned to its swizzle", BLACKWELL,
    function(t) return replace(t, "add.s32 %r264, %smem, 0", "0;", "128;") end,
    { "copy-not-awaited", "mma-not-awaited" } },
  { "C67", "another swizzle than the copy's", BLACKWELL,
    function(t) return replace(t, "mov.b32 %r268, 0x40004040", "0x4000", "0x8000") end, { "swizzle-mismatch" } },
  { "C71", "the commit does not reach the peer", PAIR, one_way, { "deadlock" },
    { likely = "all that have come are of its own CTA" } },
  { "C75", "every lane issues the MMAs", BLACKWELL, function(t) return drop(t, "@!%elected_mma bra L31") end,
    { "issued-by-many-lanes", "mma-not-awaited", "copy-not-awaited", "deadlock" } },
  { "C75", "every lane copies", BLACKWELL, function(t) return drop(t, "@!%elected_load bra L20") end,
    { "mbarrier-over-arrival" } },
  { "C76", "one lane waits for the load of all", BLACKWELL,
    function(t) return replace(t, "tcgen05.wait::ld", "tcgen05", "@%elected_epilogue tcgen05") end,
    { "diverged-aligned" } },
  { "D78", "shared memory beyond the launch's", BLACKWELL,
    function(t) return (t:gsub("65536%]", "165536]")) end, { "out-of-bounds" } },
  { "D80", "a misaligned vector", BLACKWELL,
    function(t) return (t:gsub("(st%.shared%.v4%.b32 %[%%r%d+%+)65536%]", "%165540]", 1)) end, { "misaligned" } },
  { "D81", "a misaligned tile", BLACKWELL,
    function(t) return replace(t, "complete_tx::bytes [", "],", "+64],") end, { "misaligned" } },
  { "D82", "the tensor map of the other operand", BLACKWELL,
    function(t) return replace(t, "%arg0_map, {", "arg0", "arg1", { behind = LOAD }) end,
    { "mbarrier-tx", "deadlock" } },
  { "D83", "the box of the map is half the tile", BLACKWELL, function(t) return t end, { "mbarrier-tx", "deadlock" },
    { box = { 64, 64 } } },
  { "D84", "the coordinates in the wrong order", BLACKWELL,
    function(t) return replace(t, "complete_tx::bytes", "{%r235, %r238}", "{%r238, %r235}") end, { "boxes-outside" } },
  { "D84", "the coordinates of Hopper in the wrong order", HOPPER,
    function(t) return (t:gsub("(complete_tx::bytes [^\n]*){(%%r%d+), (%%r%d+)}", "%1{%3, %2}", 1)) end,
    { "boxes-outside" } },
  { "D85", "a multicast to a CTA that is not there", PAIR,
    function(t) return replace(t, "mov.b16 %h1, 3", "3", "7") end, { "multicast-mask" } },
  { "D86", "a stage is free when one CTA has read it", PAIR,
    function(t) return one_way((t:gsub("(%[%%smem%+983[12][08]%]), 2", function(barrier)
      return barrier .. (barrier:find "98312" and ", 2" or ", 1")
    end))) end, { "copy-not-awaited", "mbarrier-tx", "deadlock" } },
  { "D89", "a block without the producer", HOPPER, function(t) return t end, { "deadlock" },
    { block = 96, likely = "the block has 96 threads, the kernel's .maxntid allows 384" } },
  { "D95", "the result of a wait is not looked at", BLACKWELL, function(t) return drop(t, "@!%p15 bra L29") end,
    { "mma-not-awaited", "copy-not-awaited", "mbarrier-over-arrival" }, { mode = "random", seed = 1 } },
}

describe("a correct kernel", function()
  for _, mode in ipairs { "check", "random" } do
    for _, case in ipairs { BLACKWELL, HOPPER, PAIR, HOPPER_PAIR } do
      it(("of %s, clusters of %d, is silent in mode %s"):format(case.target, case.cluster or 1, mode), function()
        local report, out, expected = mutation.run(case, mutation.text(case), { mode = mode })
        assert.same({}, report.hazards)
        assert.is_true(report.completed)
        assert.is_true(out:equal(expected:astype(out.dtype)))
      end)
    end
  end
end)

describe("a launch is refused", function()
  local function refused(words, case, options)
    local ok, message = pcall(mutation.run, case, mutation.text(case), options)
    assert.is_false(ok)
    assert.matches(words, message, 1, true)
  end

  it("D79: with more shared memory than there is", function()
    refused("shared memory", BLACKWELL, { smem = 300 * 1024 })
  end)

  it("D89: with another block than the kernel's", function() refused("threads", BLACKWELL, { block = 512 }) end)

  it("D90: without the cluster that the kernel is for", function() refused("cluster", PAIR, { cluster = 1 }) end)
end)

describe("a spoilt kernel", function()
  for _, row in ipairs(catalogue) do
    local number, what, case, spoil, rules, options = table.unpack(row, 1, 6)
    it(("%s: %s"):format(number, what), function()
      local text = spoil(mutation.text(case))
      assert.is_true(options ~= nil or text ~= mutation.text(case), "nothing was changed")
      local report = mutation.run(case, text, options)
      assert.same(rules, rules_of(report))
      if options and options.likely then
        assert.matches("\n    likely: [^\n]*" .. options.likely, report.hazards[#report.hazards].message)
      end
    end)
  end
end)

-- A square tensor in square boxes is read in order either way.
describe("coordinates of B in the wrong order", function()
  it("D84: show in the result", function()
    local text = replace(mutation.text(BLACKWELL), "[%arg1_map, {%r240", "{%r240, %r235}", "{%r235, %r240}")
    local report, out, expected = mutation.run(BLACKWELL, text)
    assert.same({}, report.hazards)
    assert.is_false(out:equal(expected:astype(out.dtype)))
  end)
end)

-- ---- what a report says ------------------------------------------------------------------------------

local function line_of(text, words)
  local line = 0
  for l in text:gmatch "([^\n]*)\n" do
    line = line + 1
    if l:find(words, 1, true) then return line end
  end
end

describe("a report", function()
  it("names both sides, the place, the rule's section and what would mend it", function()
    local text = drop(mutation.text(BLACKWELL), "fence.proxy.async")
    local report = mutation.run(BLACKWELL, text)
    local hazard = report.hazards[1]
    assert.equal(1, #report.hazards)
    assert.equal("error", hazard.severity)
    assert.equal(line_of(text, "cp.async.bulk.tensor.2d.global"), hazard.ptx_line)
    for _, words in ipairs {
      "read (async proxy) of shared 0x10400..0x1040f of CTA rank 0", "warp 0 lane",
      "earlier: write by st.shared.v4.b32", ("PTX line %d"):format(line_of(text, "st.shared.v4.b32")),
      "fence.proxy.async by the threads that write",
    } do
      assert.matches(words, hazard.message, 1, true)
    end
  end)

  it("comes once for each pair of instructions, with a count", function()
    local report = mutation.run(BLACKWELL, drop_wait(mutation.text(BLACKWELL), DRAINED, { behind = MMA }))
    assert.is_true(report.hazards[1].count > 1)
    local seen = {}
    for _, hazard in ipairs(report.hazards) do
      local key = hazard.rule .. hazard.message
      assert.is_nil(seen[key])
      seen[key] = true
    end
  end)
end)
