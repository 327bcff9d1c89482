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

-- A generic address of each space, in %rd20 and on: global, shared, local, constant, parameter, the peer's shared memory.
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
    cases[#cases + 1] = { name = name, family = options.family or "order", text = kernels.entry(8, 8, body), stride = 8,
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
  return cases
end
