"""Dictionary-encoded column decode with RMM buffers and CuPy kernels."""
import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator
from rmm.pylibrmm.stream import Stream

GATHER = cp.RawKernel(r"""
extern "C" __global__
void decode(const int* codes, const float* table, float* out, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    int step = blockDim.x * gridDim.x;
    for (; i < n; i += step) out[i] = table[codes[i]];
}
""", "decode")


def view(buf, dtype):
    """CuPy array over a DeviceBuffer; the buffer keeps ownership."""
    dtype = np.dtype(dtype)
    mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, None)
    return cp.ndarray(buf.size // dtype.itemsize, dtype, cp.cuda.MemoryPointer(mem, 0))


class ColumnReader:
    def __init__(self, pages):
        self.pages = pages
        self.load = cp.cuda.Stream(non_blocking=True)
        self.load_rmm = Stream(self.load)
        self.calc = cp.cuda.Stream(non_blocking=True)
        self.loaded = cp.cuda.Event(disable_timing=True)

    def _stage(self, codes):
        raw = np.ascontiguousarray(codes).view(np.uint8).reshape(-1)
        buf = rmm.DeviceBuffer(size=raw.size, stream=self.load_rmm)
        buf.copy_from_host(raw, self.load_rmm)
        self.loaded.record(self.load)
        return buf

    def _decode(self, codes, table, out):
        self.calc.wait_event(self.loaded)
        with self.calc:
            GATHER((256,), (256,), (view(codes, np.int32), table, out, np.int32(out.size)))

    def read(self, table):
        chunks = []
        for codes in self.pages:
            buf = self._stage(codes)
            with self.calc:
                out = cp.empty(codes.size, dtype=cp.float32)
            self._decode(buf, table, out)
            chunks.append(out)
            del buf
        with self.calc:
            return cp.concatenate(chunks)

    def finish(self):
        self.load.synchronize()
        self.calc.synchronize()


class Table:
    def __init__(self, uniques):
        self.host = np.sort(np.random.default_rng(0).normal(size=uniques)).astype(np.float32)

    def encode(self, rows, pages):
        rng = np.random.default_rng(1)
        return [rng.integers(0, self.host.size, rows, dtype=np.int32) for _ in range(pages)]

    def expected(self, pages):
        return np.concatenate([self.host[p] for p in pages])


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    cp.cuda.set_allocator(rmm_cupy_allocator)
    table = Table(50000)
    pages = table.encode(4_000_000, 12)
    reader = ColumnReader(pages)
    with reader.calc:
        dev_table = cp.asarray(table.host)
    column = reader.read(dev_table)
    reader.finish()
    got = column.get()
    print("rows", got.size, "equal", bool(np.array_equal(got, table.expected(pages))))


if __name__ == "__main__":
    main()
