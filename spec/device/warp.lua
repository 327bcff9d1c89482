-- Instructions of a warp and of a block: shuffles, votes, match, redux, elect, bar.red; special registers.
local kernels = require "spec.device.kernels"

local masks = { "0xffffffff", "0x0000ffff", "0xfffefffe", "0x80000001" }

-- Lanes of the mask run the text, the others keep zero and false.
local function within(mask, text)
  return ([[
 mov.u32 %%r20, %%laneid; mov.u32 %%r4, 0; mov.u32 %%r5, 0; setp.ne.u32 %%p1, %%r20, %%r20;
 shr.u32 %%r21, %s, %%r20; and.b32 %%r21, %%r21, 1; setp.ne.u32 %%p4, %%r21, 0;
 @!%%p4 bra SKIP;
%s
SKIP:
 selp.u32 %%r6, 1, 0, %%p1; shl.b32 %%r5, %%r5, 1; or.b32 %%r5, %%r5, %%r6;
 mov.b64 %%rd3, {%%r4, %%r5};]]):format(mask, text)
end

local function shuffles(add)
  for _, mode in ipairs { "up", "down", "bfly", "idx" } do
    add { name = ("shfl.sync.%s.b32 a, b, c"):format(mode), result = "u64", sources = { "b32", "u32", "u32" },
      body = within("0xffffffff", (" shfl.sync.%s.b32 %%r4|%%p1, %%r10, %%r11, %%r12, 0xffffffff;"):format(mode)) }
    for _, step in ipairs { 0, 1, 2, 5, 16, 31 } do
      for _, clamp in ipairs { "0", "0x1f", "0x181f", "0x1c1f", "0x1e1e", "0x1003" } do
        add { name = ("shfl.sync.%s.b32 %d, %s"):format(mode, step, clamp), result = "u64", sources = { "b32" },
          body = within("0xffffffff", (" shfl.sync.%s.b32 %%r4|%%p1, %%r10, %d, %s, 0xffffffff;")
            :format(mode, step, clamp)) }
      end
    end
  end
  for _, step in ipairs { 1, 2, 8, 15 } do
    add { name = ("shfl.sync.bfly.b32 %d within 16 lanes"):format(step), result = "u64", sources = { "b32" },
      body = within("0x0000ffff", (" shfl.sync.bfly.b32 %%r4|%%p1, %%r10, %d, 0x1f, 0xffff;"):format(step)) }
  end
  add { name = "shfl.sync.idx.b32 in two branches", result = "u64", sources = { "b32", "u32" }, body = [[
 mov.u32 %r20, %laneid; and.b32 %r21, %r11, 15; setp.lt.u32 %p4, %r20, 16;
 @%p4 bra LOW;
 or.b32 %r21, %r21, 16;
 shfl.sync.idx.b32 %r4|%p1, %r10, %r21, 0x1f, 0xffff0000;
 bra END;
LOW:
 shfl.sync.idx.b32 %r4|%p1, %r10, %r21, 0x1f, 0x0000ffff;
END:
 selp.u32 %r5, 1, 0, %p1; mov.b64 %rd3, {%r4, %r5};]] }
end

-- %p2: in a warp all true, all false, true in one lane, or mixed.
local verdict = [[
 shr.u32 %r22, %r1, 5; and.b32 %r23, %r22, 3; and.b32 %r24, %r22, 31; mov.u32 %r20, %laneid;
 setp.lt.s32 %p2, %r10, 0; setp.eq.u32 %p3, %r23, 0; @%p3 setp.eq.u32 %p2, 0, 0; setp.eq.u32 %p3, %r23, 1;
 @%p3 setp.ne.u32 %p2, 0, 0; setp.eq.u32 %p3, %r23, 2; @%p3 setp.eq.u32 %p2, %r20, %r24;
]]

local function votes(add)
  for _, mask in ipairs(masks) do
    for _, sign in ipairs { "", "!" } do
      for _, mode in ipairs { "all", "any", "uni" } do
        add { name = ("vote.sync.%s.pred %sp, %s"):format(mode, sign, mask), result = "u64", sources = { "b32" },
          body = verdict .. within(mask, (" vote.sync.%s.pred %%p1, %s%%p2, %s;"):format(mode, sign, mask)) }
      end
      add { name = ("vote.sync.ballot.b32 %sp, %s"):format(sign, mask), result = "u64", sources = { "b32" },
        body = verdict .. within(mask, (" vote.sync.ballot.b32 %%r4, %s%%p2, %s;"):format(sign, mask)) }
    end
  end
end

local function matches(add)
  local few = verdict .. " and.b32 %r30, %r10, 3; setp.lt.u32 %p3, %r23, 2; selp.u32 %r30, 7, %r30, %p3;\n"
    .. " mov.b64 %rd20, {%r24, %r30};\n"
  for _, mask in ipairs(masks) do
    for width, register in pairs { b32 = "%r30", b64 = "%rd20" } do
      add { name = ("match.any.sync.%s %s"):format(width, mask), result = "u64", sources = { "b32" },
        body = few .. within(mask, (" match.any.sync.%s %%r4, %s, %s;"):format(width, register, mask)) }
      add { name = ("match.all.sync.%s d|p %s"):format(width, mask), result = "u64", sources = { "b32" },
        body = few .. within(mask, (" match.all.sync.%s %%r4|%%p1, %s, %s;"):format(width, register, mask)) }
    end
  end
end

local function reductions(add)
  for _, mask in ipairs(masks) do
    for _, form in ipairs { "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32",
      "xor.b32" } do
      add { name = ("redux.sync.%s %s"):format(form, mask), result = "u64", sources = { "b32" },
        body = within(mask, (" redux.sync.%s %%r4, %%r10, %s;"):format(form, mask)) }
    end
    add { name = ("elect.sync d|p %s"):format(mask), result = "u64", sources = { "b32" },
      body = within(mask, (" elect.sync %%r4|%%p1, %s;"):format(mask)) }
    add { name = ("activemask within %s"):format(mask), result = "u64", sources = { "b32" },
      body = within(mask, (" bar.warp.sync %s; activemask.b32 %%r4;"):format(mask)) }
  end
end

local function blocks(add)
  for _, name in ipairs { "bar", "barrier" } do
    for _, sign in ipairs { "", "!" } do
      for _, mode in ipairs { "and", "or" } do
        add { name = ("%s.red.%s.pred %sp"):format(name, mode, sign), result = "u64", sources = { "b32" },
          body = verdict .. within("0xffffffff", (" %s.red.%s.pred %%p1, 0, %s%%p2;"):format(name, mode, sign)) }
      end
      add { name = ("%s.red.popc.u32 %sp"):format(name, sign), result = "u64", sources = { "b32" },
        body = verdict .. within("0xffffffff", (" %s.red.popc.u32 %%r4, 1, %s%%p2;"):format(name, sign)) }
    end
    add { name = name .. ".red.popc.u32 of half the threads", result = "u64", sources = { "b32" }, body = verdict .. ([[
 mov.u32 %%r4, 0; mov.u32 %%r30, %%tid.x; setp.lt.u32 %%p5, %%r30, 128;
 @!%%p5 bra SKIP;
 %s.red.popc.u32 %%r4, 3, 128, %%p2;
SKIP:
 cvt.u64.u32 %%rd3, %%r4;]]):format(name) }
  end
end

local function registers(add)
  for _, name in ipairs { "laneid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "tid.x",
    "tid.y", "ntid.x", "ntid.z", "ctaid.x", "ctaid.y", "nctaid.x", "nctaid.z", "clusterid.x", "nclusterid.x",
    "cluster_ctaid.x", "cluster_nctaid.x", "cluster_ctarank", "cluster_nctarank", "dynamic_smem_size",
    "total_smem_size", "aggr_smem_size" } do
    add { name = "mov.u32 %" .. name, result = "u64", sources = {}, body =
      (" mov.u32 %%r4, %%%s; cvt.u64.u32 %%rd3, %%r4;"):format(name) }
  end
  add { name = "mov.pred %is_explicit_cluster", result = "u64", sources = {},
    body = " mov.pred %p1, %is_explicit_cluster; selp.u64 %rd3, 1, 0, %p1;" }
end

return function()
  local cases = {}
  local function add(form)
    if #form.sources == 0 then form.sources = { "u32" } end
    cases[#cases + 1] = kernels.case(form)
  end
  shuffles(add)
  votes(add)
  matches(add)
  reductions(add)
  blocks(add)
  registers(add)
  return cases
end
