"""Chunked histogram on cuda.core: scratch memory is returned on the stream that read it last."""
import numpy as np
from cuda.bindings import runtime as rt
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void synth(unsigned int* data, int n, int chunk) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = (i * 2654435761u) ^ (chunk * 40503u);
}
extern "C" __global__ void histogram(const unsigned int* data, unsigned int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[data[i] >> 24], 1u);
}
"""
BINS = 256


def ok(ret):
    if ret[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(ret[0]))
    return ret[1] if len(ret) > 1 else None


class ChunkedHistogram:
    def __init__(self, chunk_elems):
        self.dev = Device()
        self.dev.set_current()
        opts = ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}")
        module = Program(CODE, code_type="c++", options=opts).compile("cubin")
        self.synth = module.get_kernel("synth")
        self.histogram = module.get_kernel("histogram")
        self.n = chunk_elems
        self.config = LaunchConfig(grid=(chunk_elems + 255) // 256, block=256)
        self.source = self.dev.create_stream()
        self.count = self.dev.create_stream()
        self.bins = self.dev.allocate(BINS * 4, stream=self.count)
        ok(rt.cudaMemsetAsync(int(self.bins.handle), 0, BINS * 4, int(self.count.handle)))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.bins.close(self.count)
        for s in (self.source, self.count):
            s.sync()
            s.close()
        return False

    def _produce(self, chunk):
        data = self.dev.allocate(self.n * 4, stream=self.source)
        launch(self.source, self.config, self.synth, int(data.handle), np.int32(self.n), np.int32(chunk))
        return data

    def _consume(self, data):
        launch(self.count, self.config, self.histogram, int(data.handle), int(self.bins.handle),
               np.int32(self.n))

    def feed(self, chunks):
        for c in range(chunks):
            data = self._produce(c)
            self.count.wait(self.source)
            self._consume(data)
            data.close(self.count)

    def read(self):
        out = np.empty(BINS, dtype=np.uint32)
        ok(rt.cudaMemcpyAsync(out.ctypes.data, int(self.bins.handle), out.nbytes,
                              rt.cudaMemcpyKind.cudaMemcpyDeviceToHost, int(self.count.handle)))
        self.count.sync()
        return out


def reference(chunks, n):
    i = np.arange(n, dtype=np.uint32) * np.uint32(2654435761)
    bins = np.zeros(BINS, dtype=np.int64)
    for c in range(chunks):
        word = i ^ np.uint32((c * 40503) & 0xFFFFFFFF)
        bins += np.bincount(word >> np.uint32(24), minlength=BINS)
    return bins


def main(chunks=40, n=1 << 20):
    with ChunkedHistogram(n) as h:
        h.feed(chunks)
        got = h.read()
    print("match", bool((got == reference(chunks, n)).all()))


if __name__ == "__main__":
    main()
