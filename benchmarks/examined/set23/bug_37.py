"""Device side views of nested columns, built through pinned staging memory."""
import cupy as cp
import numpy as np

cp.cuda.set_pinned_memory_allocator(cp.cuda.PinnedMemoryPool().malloc)

VIEW_DTYPE = np.dtype(
    [("data", np.uint64), ("mask", np.uint64), ("size", np.int64), ("first_child", np.int64)]
)

_sum_children = cp.RawKernel(
    r"""
struct view { unsigned long long data, mask; long long size, first_child; };
extern "C" __global__ void sum_children(const view* v, int n, double* out) {
    int c = blockIdx.x;
    const double* p = (const double*) v[c].data;
    double acc = 0;
    for (long long i = threadIdx.x; i < v[c].size; i += blockDim.x) acc += p[i];
    atomicAdd(&out[c], acc);
}
""",
    "sum_children",
)


class Column:
    def __init__(self, data, children=()):
        self.data = data
        self.children = list(children)

    def flatten(self):
        yield self
        for child in self.children:
            yield from child.flatten()


def make_pinned_vector(count, dtype):
    mem = cp.cuda.alloc_pinned_memory(count * dtype.itemsize)
    return np.frombuffer(mem, dtype, count)


def create_device_view(column, stream):
    """Upload the flattened column tree and return its device storage."""
    nodes = list(column.flatten())
    staging = make_pinned_vector(len(nodes), VIEW_DTYPE)
    next_child = 1
    for i, node in enumerate(nodes):
        staging[i] = (node.data.data.ptr, 0, node.data.size, next_child)
        next_child += len(node.children)
    with stream:
        storage = cp.empty(len(nodes) * VIEW_DTYPE.itemsize, dtype=cp.uint8)
    storage.data.copy_from_host_async(
        staging.ctypes.data, storage.nbytes, stream
    )
    return storage, len(nodes)


def aggregate(table, stream):
    results = []
    views = []
    for column in table:
        storage, count = create_device_view(column, stream)
        views.append(storage)
        with stream:
            out = cp.zeros(count, dtype=cp.float64)
            _sum_children((count,), (128,), (storage, np.int32(count), out))
        results.append(out)
    host = [r.get(stream=stream) for r in results]
    stream.synchronize()
    return host


def build_table(n_columns=64, rows=100_000):
    table = [
        Column(cp.random.random(rows), [Column(cp.random.random(rows // 2))])
        for _ in range(n_columns)
    ]
    cp.cuda.Device().synchronize()
    return table


if __name__ == "__main__":
    print(len(aggregate(build_table(), cp.cuda.Stream(non_blocking=True))))
