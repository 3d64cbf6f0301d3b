"""Column views: nested descriptors are uploaded from recycled pinned staging."""
import cupy as cp
import cupyx
import numpy as np

_gather_sum = cp.RawKernel(r"""
extern "C" __global__
void gather_sum(const unsigned long long* cols, const long long* sizes, int n, double* out) {
    int c = blockIdx.x;
    if (c >= n) return;
    const double* col = (const double*)cols[c];
    double s = 0;
    for (long long i = threadIdx.x; i < sizes[c]; i += blockDim.x) s += col[i];
    atomicAdd(&out[c], s);
}
""", "gather_sum")


class PinnedStaging:
    """Stream-ordered reuse of pinned host vectors."""

    def __init__(self):
        self._parked = []

    def take(self, count):
        for i, (event, array) in enumerate(self._parked):
            if array.size >= count and event.done:
                del self._parked[i]
                return array
        return cupyx.empty_pinned((max(count, 64),), np.uint64)

    def park(self, array, stream):
        self._parked.append((stream.record(), array))


class TableView:
    def __init__(self, columns, stream, staging):
        n = len(columns)
        self.columns = columns
        self.stream = stream
        host = staging.take(2 * n)
        host[:n] = [c.data.ptr for c in columns]
        host[n:2 * n] = [c.size for c in columns]
        with stream:
            self.device = cp.empty(2 * n, cp.uint64)
            self.device.set(host[:2 * n], stream=stream)
        staging.park(host, stream)

    def sums(self):
        n = len(self.columns)
        with self.stream:
            out = cp.zeros(n, cp.float64)
            sizes = self.device[n:].view(cp.int64)
            _gather_sum((n,), (256,), (self.device[:n], sizes, np.int32(n), out))
        return out


def main():
    staging = PinnedStaging()
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
    tables = []
    for s in streams:
        with s:
            tables.append([cp.random.random(1 << 18) for _ in range(24)])
    results = [[] for _ in streams]
    for rnd in range(30):
        for k, s in enumerate(streams):
            columns = tables[k][rnd % 8: rnd % 8 + 16]
            results[k].append(TableView(columns, s, staging).sums())
    for k, s in enumerate(streams):
        s.synchronize()
        with s:
            print(k, float(cp.stack(results[k]).sum()))


if __name__ == "__main__":
    main()
