-- What orders, waits, sleeps and asks where an address is: fences, barriers of the block and of the cluster, registers
-- of warpgroups, dependent grids, generic addresses and their spaces, the stack.
local kernels = require "spec.device.kernels"
local operands = require "spec.device.operands"

local ROWS = 512

local shared = " .shared .align 16 .b8 cells[2048]; mov.u32 %r70, cells; mov.u32 %r71, %tid.x;\n"
  .. " mad.lo.u32 %r8, %r71, 8, %r70; ld.global.b64 %rd10, [%rd1];\n"

-- The thread's value goes to its neighbour's cell, which that one reads behind what is under test.
local function exchange(between)
  return shared .. " add.u32 %r72, %r71, 1; and.b32 %r72, %r72, 127; mad.lo.u32 %r9, %r72, 8, %r70;\n"
    .. " st.shared.b64 [%r9], %rd10;\n" .. between .. "\n bar.sync 0;\n ld.shared.b64 %rd11, [%r8];\n"
    .. " st.global.b64 [%rd2], %rd11;"
end

-- The same to the other CTA of a pair.
local function across(arrive, wait)
  return shared .. " mov.u32 %r73, %cluster_ctarank; xor.b32 %r73, %r73, 1; mapa.shared::cluster.u32 %r74, %r8, %r73;\n"
    .. " barrier.cluster.arrive; barrier.cluster.wait;\n st.shared::cluster.b64 [%r74], %rd10;\n"
    .. arrive .. "\n" .. wait .. "\n ld.shared.b64 %rd11, [%r8]; st.global.b64 [%rd2], %rd11;"
end

local function flags(list)
  local text = { " mov.u32 %r20, 0;" }
  for i, question in ipairs(list) do
    text[#text + 1] = (" %s\n selp.u32 %%r21, %d, 0, %%p1; or.b32 %%r20, %%r20, %%r21;"):format(question, 1 << i - 1)
  end
  return table.concat(text, "\n") .. "\n cvt.u64.u32 %rd11, %r20; st.global.b64 [%rd2], %rd11;"
end

-- A generic address of each space, in %rd20 and on: global, shared, local, constant, parameter, the peer's shared
-- memory.
local addresses = [[
 .shared .align 16 .b8 cells[2048]; .local .align 8 .b8 own[16];
 mov.u64 %rd5, own; cvta.local.u64 %rd22, %rd5; mov.u64 %rd6, cells; cvta.shared.u64 %rd21, %rd6;
 cvta.global.u64 %rd20, %rd1; mov.u64 %rd7, in; cvta.param.u64 %rd24, %rd7;
 mov.u32 %r73, %cluster_ctarank; xor.b32 %r73, %r73, 1; mapa.u64 %rd25, %rd21, %r73;
]]
local generics = { "%rd20", "%rd21", "%rd22", "%rd24", "%rd25" }

return function()
  local cases = {}
  local function add(name, body, options)
    options = options or {}
    cases[#cases + 1] = { name = name, family = options.family or "order", stride = 8,
      text = (options.constant and ".const .align 8 .b64 table_KERNEL[2] = {0x123456789, 77};\n" or "")
        .. kernels.entry(8, 8, body),
      block = { 128 }, grid = { ROWS // 128 }, cluster = options.cluster and { 2 } or nil,
      args = { { input = operands.bytes(ROWS * 8, 78) }, { output = ROWS * 8 } } }
  end

  for _, scope in ipairs { "cta", "cluster", "gpu", "sys" } do
    for _, order in ipairs { "", ".sc", ".acq_rel", ".acquire", ".release" } do
      local name = ("fence%s.%s"):format(order, scope)
      add(name, exchange(" " .. name .. ";"))
    end
  end
  for _, name in ipairs { "fence.acquire.sync_restrict::shared::cluster.cluster",
    "fence.release.sync_restrict::shared::cta.cluster", "fence.proxy.alias", "fence.proxy.async",
    "fence.proxy.async.global", "fence.proxy.async.shared::cta", "fence.proxy.async.shared::cluster",
    "fence.mbarrier_init.release.cluster", "fence.proxy.tensormap::generic.release.cta",
    "fence.proxy.tensormap::generic.release.gpu", "membar.cta", "membar.gl", "membar.sys", "nanosleep.u32 20",
    "pmevent 1", "pmevent.mask 3", "griddepcontrol.wait", "griddepcontrol.launch_dependents" } do
    add(name, exchange(" " .. name .. ";"))
  end
  for _, name in ipairs { "bar", "barrier", "barrier.cta" } do
    for _, aligned in ipairs(name == "bar" and { "" } or { "", ".aligned" }) do
      add(("%s.sync%s"):format(name, aligned), exchange((" %s.sync%s 3, 128;"):format(name, aligned)))
      add(("%s.arrive%s"):format(name, aligned), exchange(([[
 setp.lt.u32 %%p1, %%r71, 64;
 @%%p1 bra FIRST;
 %s.arrive%s 5, 128;
 bra BOTH;
FIRST: %s.sync%s 5, 128;
BOTH:]]):format(name, aligned, name, aligned)))
      if name ~= "bar" then
        add(("%s.red.popc%s"):format(name, aligned), shared .. (" setp.lt.s64 %%p1, %%rd10, 0;\n"
          .. " %s.red.popc%s.u32 %%r20, 1, %%p1; cvt.u64.u32 %%rd11, %%r20; st.global.b64 [%%rd2], %%rd11;")
          :format(name, aligned))
        for _, join in ipairs { "and", "or" } do
          add(("%s.red.%s%s"):format(name, join, aligned), shared .. (" setp.lt.s64 %%p1, %%rd10, 0;\n"
            .. " %s.red.%s%s.pred %%p2, 1, %%p1; selp.u64 %%rd11, 1, 0, %%p2; st.global.b64 [%%rd2], %%rd11;")
            :format(name, join, aligned))
        end
      end
    end
  end
  for _, aligned in ipairs { "", ".aligned" } do
    for _, arrive in ipairs { "", ".release" } do
      for _, wait in ipairs { "", ".acquire" } do
        add(("barrier.cluster.arrive%s%s, wait%s%s"):format(arrive, aligned, wait, aligned),
          across((" barrier.cluster.arrive%s%s;"):format(arrive, aligned),
            (" barrier.cluster.wait%s%s;"):format(wait, aligned)), { cluster = true })
      end
    end
    add("fence, barrier.cluster.arrive.relaxed" .. aligned, across(
      (" fence.acq_rel.cluster; barrier.cluster.arrive.relaxed%s;"):format(aligned),
      (" barrier.cluster.wait.acquire%s;"):format(aligned)), { cluster = true })
  end
  add("setmaxnreg.dec, then inc", shared .. [[
 setmaxnreg.dec.sync.aligned.u32 40;
 mul.lo.u64 %rd11, %rd10, 3; bar.sync 0;
 setmaxnreg.inc.sync.aligned.u32 64;
 add.u64 %rd11, %rd11, 1; st.global.b64 [%rd2], %rd11;]])
  add("alloca, stacksave, stackrestore", shared .. [[
 stacksave.u64 %rd5; alloca.u64 %rd6, 32, 8; st.local.b64 [%rd6], %rd10; not.b64 %rd7, %rd10;
 st.local.b64 [%rd6+8], %rd7; ld.local.b64 %rd11, [%rd6]; ld.local.b64 %rd12, [%rd6+8]; xor.b64 %rd11, %rd11, %rd12;
 stackrestore.u64 %rd5; st.global.b64 [%rd2], %rd11;]])

  for _, space in ipairs { "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param",
    "param::entry" } do
    local list = {}
    for i, register in ipairs(generics) do list[i] = ("isspacep.%s %%p1, %s;"):format(space, register) end
    add("isspacep." .. space, addresses .. flags(list), { cluster = true, family = "address" })
  end
  -- To the space and back; a load through either.
  for _, way in ipairs { { "global", "%rd20" }, { "shared", "%rd21" }, { "shared::cta", "%rd21" }, { "local", "%rd22" },
    { "param", "%rd24" }, { "shared::cluster", "%rd25" } } do
    local space, register = table.unpack(way)
    add(("cvta.to.%s and cvta.%s"):format(space, space), addresses .. ([[
 ld.global.b64 %%rd10, [%%rd1]; mov.u32 %%r71, %%tid.x; setp.eq.u32 %%p2, %%r71, 0;
 @%%p2 st.b64 [%%rd21], 77; st.b64 [%%rd22], %%rd10;
 bar.sync 0; barrier.cluster.arrive; barrier.cluster.wait;
 cvta.to.%s.u64 %%rd30, %s; ld.%s.b64 %%rd31, [%%rd30]; cvta.%s.u64 %%rd32, %%rd30; ld.b64 %%rd33, [%%rd32];
 setp.eq.u64 %%p1, %%rd32, %s; selp.u64 %%rd11, 1, 0, %%p1; sub.u64 %%rd31, %%rd31, %%rd33;
 shl.b64 %%rd31, %%rd31, 8; or.b64 %%rd11, %%rd11, %%rd31; st.global.b64 [%%rd2], %%rd11;
 barrier.cluster.arrive; barrier.cluster.wait;]]):format(space, register, space == "param" and "param::entry" or space,
      space, register), { cluster = true, family = "address" })
  end
  add("mapa and getctarank", addresses .. [[
 mov.u32 %r70, cells; mapa.shared::cluster.u32 %r74, %r70, %r73; mapa.shared::cluster.u64 %rd26, %rd6, %r73;
 cvt.u64.u32 %rd27, %r74; sub.u64 %rd27, %rd26, %rd27;
 getctarank.shared::cluster.u32 %r75, %r74; getctarank.u64 %r76, %rd25; getctarank.u64 %r77, %rd21;
 getctarank.shared::cluster.u64 %r78, %rd26;
 shl.b32 %r76, %r76, 4; shl.b32 %r77, %r77, 8; shl.b32 %r78, %r78, 12; or.b32 %r75, %r75, %r76; or.b32 %r75, %r75, %r77;
 or.b32 %r75, %r75, %r78; cvt.u64.u32 %rd28, %r75; shl.b64 %rd27, %rd27, 32; or.b64 %rd28, %rd28, %rd27;
 mapa.u64 %rd29, %rd25, %r73; setp.eq.u64 %p1, %rd29, %rd25; selp.u64 %rd30, 65536, 0, %p1; or.b64 %rd28, %rd28, %rd30;
 st.global.b64 [%rd2], %rd28;]], { cluster = true, family = "address" })
  local with_constant = addresses .. [[
 mov.u64 %rd12, table_KERNEL; cvta.const.u64 %rd13, %rd12;
]]
  local questions = {}
  for i, space in ipairs { "const", "global", "shared", "local", "param" } do
    questions[i] = ("isspacep.%s %%p1, %%rd13;"):format(space)
  end
  add("isspacep of a constant", with_constant .. flags(questions),
    { family = "address", cluster = true, constant = true })
  add("cvta.to.const and cvta.const", with_constant .. [[
 cvta.to.const.u64 %rd14, %rd13; ld.const.b64 %rd15, [%rd14]; ld.b64 %rd16, [%rd13+8]; sub.u64 %rd11, %rd14, %rd12;
 add.u64 %rd15, %rd15, %rd16; add.u64 %rd11, %rd11, %rd15; st.global.b64 [%rd2], %rd11;]],
    { family = "address", cluster = true, constant = true })
  questions = {}
  for i, question in ipairs { "texref %p1, %rd1", "texref %p1, %rd20", "samplerref %p1, %rd1", "samplerref %p1, %rd21",
    "surfref %p1, %rd2", "surfref %p1, 0" } do
    questions[i] = "istypep." .. question .. ";"
  end
  add("istypep", addresses .. flags(questions), { family = "address", cluster = true })
  add("mapa.u32 and getctarank.u32 of the low half of a generic address", addresses .. [[
 cvt.u32.u64 %r74, %rd21; mapa.u32 %r75, %r74, %r73; mov.u32 %r76, cells; mapa.shared::cluster.u32 %r77, %r76, %r73;
 sub.u32 %r75, %r75, %r77; cvt.u32.u64 %r78, %rd25; getctarank.u32 %r79, %r78; shl.b32 %r79, %r79, 4;
 or.b32 %r75, %r75, %r79; cvt.u64.u32 %rd11, %r75; st.global.b64 [%rd2], %rd11;]],
    { family = "address", cluster = true })

  -- An arrival at, and bytes for, the barrier of the other CTA; what both barriers then say.
  local function remote(name, count, text)
    add(name, ([[
 .shared .align 8 .b64 bar; mov.u32 %%r70, bar; mov.u32 %%r71, %%tid.x; setp.eq.u32 %%p4, %%r71, 0;
 @%%p4 mbarrier.init.shared.b64 [%%r70], %d;
 fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
 mov.u32 %%r73, %%cluster_ctarank; xor.b32 %%r73, %%r73, 1; mapa.shared::cluster.u32 %%r75, %%r70, %%r73;
 @!%%p4 bra WAIT;
 %s
WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %%p1, [%%r70], 0;
 @!%%p1 bra WAIT;
 barrier.cluster.arrive; barrier.cluster.wait;
 @%%p4 mbarrier.arrive.shared.b64 %%rd4, [%%r70]; @%%p4 mbarrier.pending_count.b64 %%r20, %%rd4;
 @!%%p4 mov.u32 %%r20, 77; cvt.u64.u32 %%rd11, %%r20; st.global.b64 [%%rd2], %%rd11;
 barrier.cluster.arrive; barrier.cluster.wait;]]):format(count, text), { family = "remote", cluster = true })
  end
  for _, order in ipairs { "", ".release.cluster", ".relaxed.cluster" } do
    for _, verb in ipairs { "arrive", "arrive_drop" } do
      local form = ("mbarrier.%s%s.shared::cluster.b64 _, [%%r75]"):format(verb, order)
      remote(("mbarrier.%s%s.shared::cluster"):format(verb, order), verb == "arrive" and 1 or 2,
        form .. (verb == "arrive" and ";" or "; " .. form:gsub("_drop", "") .. ";"))
      remote(("mbarrier.%s%s.shared::cluster of 2"):format(verb, order), verb == "arrive" and 2 or 3,
        form .. (verb == "arrive" and ", 2;" or ", 2; " .. form:gsub("_drop", "") .. ";"))
      remote(("mbarrier.%s.expect_tx%s.shared::cluster"):format(verb, order), verb == "arrive" and 1 or 2,
        ("mbarrier.%s.expect_tx%s.shared::cluster.b64 _, [%%r75], 48;"):format(verb, order)
          .. " mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r75], 48;"
          .. (verb == "arrive" and "" or " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r75];"))
    end
  end
  for _, scope in ipairs { "", ".relaxed.cta", ".relaxed.cluster" } do
    remote(("mbarrier.expect_tx%s and complete_tx%s.shared::cluster"):format(scope, scope), 1,
      (" mbarrier.expect_tx%s.shared::cluster.b64 [%%r75], 80; mbarrier.complete_tx%s.shared::cluster.b64 [%%r75], 80;"
        .. " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%%r75];"):format(scope, scope))
  end
  return cases
end
