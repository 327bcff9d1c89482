"""A matmul in Gluon to measure against: one warp loads, one or two warpgroups multiply; Hopper only."""
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (fence_async_shared, mbarrier, tma, warpgroup_mma,
                                                              warpgroup_mma_wait)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# The name differs between releases.
load_box = getattr(tma, "async_copy_global_to_shared", None) or tma.async_load


@gluon.jit
def place(tile, rows, columns, GROUP: gl.constexpr):
    span = GROUP * columns
    top = tile // span * GROUP
    height = min(rows - top, GROUP)
    inside = tile % span
    return top + inside % height, inside // height


@gluon.jit
def producer(a, b, a_ring, b_ring, full, free, rows, columns, steps, GROUPS: gl.constexpr, STAGES: gl.constexpr):
    TN: gl.constexpr = b.block_type.shape[0]
    TK: gl.constexpr = a.block_type.shape[1]
    count = 0
    for tile in range(gl.program_id(0), rows * columns, gl.num_programs(0)):
        m, n = place(tile, rows, columns, 8)
        for k in range(0, steps):
            slot = count % STAGES
            mbarrier.wait(free.index(slot), ((count // STAGES) & 1) ^ 1)
            arrived = full.index(slot)
            mbarrier.expect(arrived, GROUPS * a.block_type.nbytes + b.block_type.nbytes)
            for g in gl.static_range(GROUPS):
                load_box(a, [(m * GROUPS + g) * 64, k * TK], arrived, a_ring.index(slot * GROUPS + g))
            load_box(b, [n * TN, k * TK], arrived, b_ring.index(slot))
            count += 1


@gluon.jit
def consumer(c, a_ring, b_ring, c_smem, full, free, rows, columns, steps, GROUP: gl.constexpr, GROUPS: gl.constexpr,
             STAGES: gl.constexpr, LAYOUT: gl.constexpr):
    TN: gl.constexpr = c.block_type.shape[1]
    count = 0
    for tile in range(gl.program_id(0), rows * columns, gl.num_programs(0)):
        m, n = place(tile, rows, columns, 8)
        sum = gl.zeros((64, TN), dtype=gl.float32, layout=LAYOUT)
        for k in range(0, steps):
            slot = count % STAGES
            mbarrier.wait(full.index(slot), (count // STAGES) & 1)
            sum = warpgroup_mma(a_ring.index(slot * GROUPS + GROUP), b_ring.index(slot).permute((1, 0)), sum,
                                is_async=True)
            sum = warpgroup_mma_wait(num_outstanding=1, deps=(sum, ))
            mbarrier.arrive(free.index((count + STAGES - 1) % STAGES), count=1, pred=k > 0)
            count += 1
        sum = warpgroup_mma_wait(num_outstanding=0, deps=(sum, ))
        mbarrier.arrive(free.index((count + STAGES - 1) % STAGES), count=1)
        tma.store_wait(pendings=0)
        c_smem.index(GROUP).store(sum.to(c.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(c, [(m * GROUPS + GROUP) * 64, n * TN], c_smem.index(GROUP))
    tma.store_wait(pendings=0)


@gluon.jit
def specialised(a, b, c, rows, columns, steps, GROUPS: gl.constexpr, STAGES: gl.constexpr, LAYOUT: gl.constexpr):
    a_ring = gl.allocate_shared_memory(a.dtype, [STAGES * GROUPS] + a.block_type.shape, a.layout)
    b_ring = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    c_smem = gl.allocate_shared_memory(c.dtype, [GROUPS] + c.block_type.shape, c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(free.index(i), count=GROUPS)
    if GROUPS == 2:
        gl.warp_specialize([
            (consumer, (c, a_ring, b_ring, c_smem, full, free, rows, columns, steps, 0, GROUPS, STAGES, LAYOUT)),
            (consumer, (c, a_ring, b_ring, c_smem, full, free, rows, columns, steps, 1, GROUPS, STAGES, LAYOUT)),
            (producer, (a, b, a_ring, b_ring, full, free, rows, columns, steps, GROUPS, STAGES)),
        ], [4, 1], [240, 24])
    else:
        gl.warp_specialize([
            (consumer, (c, a_ring, b_ring, c_smem, full, free, rows, columns, steps, 0, GROUPS, STAGES, LAYOUT)),
            (producer, (a, b, a_ring, b_ring, full, free, rows, columns, steps, GROUPS, STAGES)),
        ], [1], [24])

TYPES = {torch.bfloat16: gl.bfloat16, torch.float8_e4m3fn: gl.float8e4nv}


class Peer:
    name = "gluon"
    # TM (64 for each consumer), TN, bytes of TK, stages
    CONFIGS = [(128, 256, 128, 3), (128, 128, 128, 5), (64, 256, 128, 4), (64, 128, 128, 7)]

    @staticmethod
    def launcher(config, a, b, c, sms):
        tm, tn, tk_bytes, stages = config
        tk, groups = tk_bytes // a.element_size(), tm // 64
        dtype, out = TYPES[a.dtype], TYPES[c.dtype]
        default = gl.NVMMASharedLayout.get_default_for
        da = TensorDescriptor.from_tensor(a, [64, tk], default([64, tk], dtype))
        db = TensorDescriptor.from_tensor(b, [tn, tk], default([tn, tk], dtype))
        dc = TensorDescriptor.from_tensor(c, [64, tn], default([64, tn], out))
        layout = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1],
                                           instr_shape=[16, min(256, tn), 256 // dtype.primitive_bitwidth])
        rows, columns = triton.cdiv(a.shape[0], tm), triton.cdiv(b.shape[0], tn)
        steps, ctas = triton.cdiv(a.shape[1], tk), min(sms, rows * columns)

        def f():
            specialised[(ctas,)](da, db, dc, rows, columns, steps, groups, stages, layout, num_warps=4)
        return f

    @staticmethod
    def text(config):
        return f"{config[0]}x{config[1]} s{config[3]}"
