import cupy as cp
from cupy.cuda import nccl

_NCCL_DTYPE = {
    "f": nccl.NCCL_FLOAT32,
    "d": nccl.NCCL_FLOAT64,
    "i": nccl.NCCL_INT32,
    "l": nccl.NCCL_INT64,
}

_hist_kernel = cp.RawKernel(r"""
extern "C" __global__
void build_hist(const unsigned short* bins, const float2* gpair, const int* rows,
                int n_rows, int n_feat, int n_bins, double* hist) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_rows * n_feat) return;
    int r = rows[i / n_feat], f = i % n_feat;
    int b = f * n_bins + bins[r * n_feat + f];
    atomicAdd(hist + 2 * b, (double)gpair[r].x);
    atomicAdd(hist + 2 * b + 1, (double)gpair[r].y);
}
""", "build_hist")


class Context:
    def __init__(self, ordinal):
        self.ordinal = ordinal
        cp.cuda.Device(ordinal).use()
        self.stream = cp.cuda.Stream(non_blocking=True)


class NCCLComm:
    def __init__(self, world, unique_id, rank):
        self._comm = nccl.NcclCommunicator(world, unique_id, rank)
        self._stream = cp.cuda.Stream(non_blocking=True)

    @property
    def stream(self):
        return self._stream

    def allreduce(self, ctx, data, op=nccl.NCCL_SUM):
        self._comm.allReduce(
            data.data.ptr, data.data.ptr, data.size, _NCCL_DTYPE[data.dtype.char], op, self._stream.ptr
        )
        ctx.stream.wait_event(self._stream.record())


class GPUHistUpdater:
    def __init__(self, ctx, comm, bins, n_bins):
        self.ctx = ctx
        self.comm = comm
        self.bins = bins
        self.n_feat = bins.shape[1]
        self.n_bins = n_bins
        with ctx.stream:
            self.hist = cp.zeros(self.n_feat * n_bins * 2, dtype=cp.float64)

    def build_node(self, gpair, rows):
        ctx = self.ctx
        with ctx.stream:
            self.hist.fill(0)
            n = rows.size * self.n_feat
            _hist_kernel(
                ((n + 255) // 256,), (256,),
                (self.bins, gpair, rows, cp.int32(rows.size), cp.int32(self.n_feat), cp.int32(self.n_bins), self.hist),
            )
        self.comm.allreduce(ctx, self.hist)
        with ctx.stream:
            return self._best_split(self.hist.reshape(self.n_feat, self.n_bins, 2))

    def _best_split(self, hist, reg_lambda=1.0):
        left = cp.cumsum(hist, axis=1)
        total = left[:, -1:, :]
        right = total - left
        gain = left[..., 0] ** 2 / (left[..., 1] + reg_lambda) + right[..., 0] ** 2 / (right[..., 1] + reg_lambda)
        return int(cp.argmax(gain))
