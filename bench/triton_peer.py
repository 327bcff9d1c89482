"""A matmul in Triton to measure against: persistent, TMA, C[M,N] = A[M,K] B[N,K]^T with float32 accumulation."""
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _place(tile, rows, columns, GROUP: tl.constexpr):
    span = GROUP * columns
    top = tile // span * GROUP
    height = min(rows - top, GROUP)
    inside = tile % span
    return top + inside % height, inside // height


@triton.jit
def persistent(a, b, c, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr, CTAS: tl.constexpr,
               HALVES: tl.constexpr):
    rows, columns, steps = tl.cdiv(M, TM), tl.cdiv(N, TN), tl.cdiv(K, TK)
    first = tl.program_id(0)
    done = first - CTAS
    for tile in tl.range(first, rows * columns, CTAS, flatten=True):
        m, n = _place(tile, rows, columns, 8)
        sum = tl.zeros((TM, TN), dtype=tl.float32)
        for k in range(steps):
            sum = tl.dot(a.load([m * TM, k * TK]), b.load([n * TN, k * TK]).T, sum)
        # A second counter for the store lets the compiler overlap it with the next tile's loads.
        done += CTAS
        om, on = _place(done, rows, columns, 8)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(sum, (TM, 2, TN // 2)), (0, 2, 1)))
            c.store([om * TM, on * TN], left.to(tl.bfloat16))
            c.store([om * TM, on * TN + TN // 2], right.to(tl.bfloat16))
        else:
            c.store([om * TM, on * TN], sum.to(tl.bfloat16))


class Peer:
    """CONFIGS to try; launcher(config, a, b, c, sms) returns a call without arguments."""
    name = "triton"
    # TM, TN, bytes of TK, stages, warps, store in halves
    CONFIGS = [(128, 256, 128, 3, 8, False), (128, 256, 128, 4, 8, True), (128, 128, 128, 4, 4, False),
               (128, 128, 128, 5, 8, True), (64, 256, 128, 4, 4, False), (64, 128, 256, 4, 4, False),
               (64, 128, 128, 6, 4, False)]

    @staticmethod
    def launcher(config, a, b, c, sms):
        tm, tn, tk_bytes, stages, warps, halves = config
        tk = tk_bytes // a.element_size()
        M, K = a.shape
        N = b.shape[0]
        da, db = TensorDescriptor.from_tensor(a, [tm, tk]), TensorDescriptor.from_tensor(b, [tn, tk])
        dc = TensorDescriptor.from_tensor(c, [tm, tn // 2 if halves else tn])
        ctas = min(sms, triton.cdiv(M, tm) * triton.cdiv(N, tn))

        def f():
            persistent[(ctas,)](da, db, dc, M, N, K, TM=tm, TN=tn, TK=tk, CTAS=ctas, HALVES=halves, num_stages=stages,
                                num_warps=warps)
        return f

    @staticmethod
    def text(config):
        return f"{config[0]}x{config[1]} s{config[3]} w{config[4]}"
