import cupy as cp
import cupyx
import numpy as np
from cupy.cuda import cublas, device


class GpuContext:
    def __init__(self, devno=0, max_batch=4096):
        self.dev = cp.cuda.Device(devno)
        self.dev.use()
        self.s = cp.cuda.Stream(non_blocking=True)
        self.mem_s = cp.cuda.Stream(non_blocking=True)
        self.ptr_host = cupyx.empty_pinned((3, max_batch), dtype=np.uintp)
        self.ptr_dev = cp.empty((3, max_batch), dtype=np.uintp)
        self.ptr_free = None
        self.dev.synchronize()

    def transfer_pointers(self, ptrs):
        if self.ptr_free is not None:
            self.ptr_free.synchronize()
        n = len(ptrs[0])
        tables = []
        for row, p in enumerate(ptrs):
            self.ptr_host[row, :n] = p
            dst = self.ptr_dev[row, :n]
            dst.data.copy_from_host_async(self.ptr_host[row].ctypes.data, n * dst.itemsize, self.mem_s)
            tables.append(dst)
        return tables


def _trans(flag):
    return cublas.CUBLAS_OP_T if flag else cublas.CUBLAS_OP_N


def sgemm_batch(ctx, transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc):
    """C[i] = alpha * op(A[i]) op(B[i]) + beta * C[i] for lists of float32 matrices."""
    batch = len(A)
    alpha = np.array(alpha, dtype=np.float32)
    beta = np.array(beta, dtype=np.float32)
    Aa, Ba, Ca = ctx.transfer_pointers(
        [[x.data.ptr for x in A], [x.data.ptr for x in B], [x.data.ptr for x in C]]
    )
    with ctx.s:
        handle = device.get_cublas_handle()
        cublas.sgemmBatched(
            handle, _trans(transA), _trans(transB), m, n, k,
            alpha.ctypes.data, Aa.data.ptr, lda, Ba.data.ptr, ldb,
            beta.ctypes.data, Ca.data.ptr, ldc, batch,
        )
    ctx.ptr_free = ctx.s.record()


class BlockSparseLayer:
    def __init__(self, ctx, blocks, size):
        self.ctx = ctx
        self.size = size
        with ctx.s:
            self.W = [cp.asfortranarray(cp.asarray(b, dtype=cp.float32)) for b in blocks]

    def forward(self, xs):
        sz = self.size
        with self.ctx.s:
            outs = [cp.zeros((sz, x.shape[1]), dtype=cp.float32, order="F") for x in xs]
        sgemm_batch(self.ctx, False, False, sz, xs[0].shape[1], sz, 1.0, self.W, sz, xs, sz, 0.0, outs, sz)
        return outs
