import cupy as cp

_mean = cp.RawKernel(r"""
extern "C" __global__
void col_mean(const float* x, float* out, int rows, int dim) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= dim) return;
    float s = 0.f;
    for (int r = 0; r < rows; ++r) s += x[(long long)r * dim + c];
    out[c] += s / rows;
}
""", "col_mean")


class Aggregator:
    def __init__(self, store, dim):
        self.store = store
        self.dim = dim
        self.out = cp.zeros(dim, dtype=cp.float32)

    def visit(self, block):
        slot = self.store.fetch(block)
        page = self.store.table.data[slot]
        threads = 128
        grid = (self.dim + threads - 1) // threads
        _mean((grid,), (threads,), (page, self.out, cp.int32(page.shape[0]), cp.int32(self.dim)))

    def result(self):
        self.store.settle()
        return cp.asnumpy(self.out)


def relative_error(got, want):
    """Host-side check of a result against numpy's."""
    num = float(abs(got - want).max())
    den = float(abs(want).max()) or 1.0
    return num / den


def visits_mean(host, blocks):
    return sum(host[b].mean(axis=0) for b in blocks)
