-- A kernel around instructions of tcgen05: it brings an image to shared memory, runs them, and writes tensor memory
-- down.
local M = {}

-- What the instructions find: %r0 the thread, %r1 its warp, %r2 the rank of the CTA, %r3 the image, %r4 two mbarriers
-- of which the second is committed to, %r6 the tensor memory.  Free: %p4.., %r7.., %rd10.., %h, %v.
local TEXT = [[
.version 8.8
.target $TARGET
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 out$PARAMETERS)
{
 .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<80>; .reg .b32 %v<132>; .reg .b32 %dump<8>; .reg .b64 %rd<40>;
 .shared .align 1024 .b8 tile[$BYTES];
 .shared .align 8 .b64 bars[2];
 .shared .align 4 .b32 slot;
 mov.u32 %r0, %tid.x;
 shr.u32 %r1, %r0, 5;
 mov.u32 %r2, %cluster_ctarank;
 mov.u32 %r3, tile;
 mov.u32 %r4, bars;
 mov.u32 %r5, slot;
 setp.eq.u32 %p0, %r1, 0;
 setp.eq.u32 %p1, %r0, 0;
 @%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
 @%p1 mbarrier.init.shared::cta.b64 [%r4+8], 1;
 @%p0 tcgen05.alloc.cta_group::$GROUP.sync.aligned.shared::cta.b32 [%r5], 512;
 tcgen05.fence::before_thread_sync;
 bar.sync 0;
 tcgen05.fence::after_thread_sync;
 ld.shared.b32 %r6, [slot];
 ld.param.u64 %rd0, [image];
 mad.wide.u32 %rd0, %r2, $BYTES, %rd0;
 @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], $BYTES;
 @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%rd0], $BYTES, [%r4];
loaded:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
 @!%p2 bra loaded;
 $SETUP
 tcgen05.fence::before_thread_sync;
 $SYNC
 tcgen05.fence::after_thread_sync;
 setp.eq.u32 %p3, %r2, 0;
 and.pred %p3, %p3, %p1;
 @!%p3 bra issued;
 $BODY
 $COMMIT
issued:
done:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4+8], 0;
 @!%p2 bra done;
 tcgen05.fence::after_thread_sync;
 ld.param.u64 %rd3, [out];
 shl.b32 %dump4, %r2, 7;
 add.u32 %dump4, %dump4, %r0;
 mad.wide.u32 %rd3, %dump4, $ROW, %rd3;
 shl.b32 %dump4, %r1, 21;
 add.u32 %dump4, %dump4, %r6;
 mov.u32 %dump5, 0;
dump:
 tcgen05.ld.sync.aligned.32x32b.x4.b32 {%dump0,%dump1,%dump2,%dump3}, [%dump4];
 tcgen05.wait::ld.sync.aligned;
 st.global.v4.b32 [%rd3], {%dump0,%dump1,%dump2,%dump3};
 add.u64 %rd3, %rd3, 16;
 add.u32 %dump4, %dump4, 4;
 add.u32 %dump5, %dump5, 4;
 setp.lt.u32 %p2, %dump5, $COLUMNS;
 @%p2 bra dump;
 tcgen05.fence::before_thread_sync;
 $SYNC
 @%p0 tcgen05.dealloc.cta_group::$GROUP.sync.aligned.b32 %r6, 512;
 ret;
}
]]

local COMMIT = { "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+8];",
  "mov.b16 %h0, 3;\n tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    .. " [%r4+8], %h0;" }
local SYNC = { "bar.sync 0;", "barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" }

-- body: for one thread of the first CTA.  setup: for every thread, in front of it.  parameters: those behind image
-- and out, with a comma in front.  group: CTAs (1).  bytes: of a CTA's image (32768).  columns that are written down to
-- out[cta * 128 + lane] (512).
function M.text(o)
  local group, columns = o.group or 1, o.columns or 512
  return (TEXT:gsub("%$(%u+)", {
    TARGET = o.target or "sm_100a", PARAMETERS = o.parameters or "", BYTES = tostring(o.bytes or 32768),
    GROUP = tostring(group), SETUP = o.setup or "", BODY = o.body, COMMIT = COMMIT[group], SYNC = SYNC[group],
    COLUMNS = tostring(columns), ROW = tostring(4 * columns),
  }))
end

return M
