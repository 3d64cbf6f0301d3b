"""Reduction that overlaps the input upload with clearing its accumulators (cuda.core)."""
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void reduce(const float* in, double* partial, size_t n, int nparts) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&partial[i % nparts], (double)in[i]);
}
extern "C" __global__ void reduce_final(const double* partial, double* out, int nparts) {
    double s = 0.0;
    for (int k = 0; k < nparts; ++k) s += partial[k];
    *out = s;
}
"""


def check(result):
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(result[0]))


class Reducer:
    def __init__(self, dev, n, nparts=256):
        self.n = n
        self.nparts = nparts
        self.stream_1 = dev.create_stream()
        self.stream_2 = dev.create_stream()
        self.fork = dev.create_event()
        self.memset_done = dev.create_event()
        module = Program(CODE, "c++", ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")).compile("cubin")
        self.reduce = module.get_kernel("reduce")
        self.reduce_final = module.get_kernel("reduce_final")
        self.d_in = dev.allocate(n * 4, stream=self.stream_1)
        self.d_partial = dev.allocate(nparts * 8, stream=self.stream_1)
        self.d_out = dev.allocate(8, stream=self.stream_1)
        self.h_out = LegacyPinnedMemoryResource().allocate(8)
        self.stream_1.sync()

    def run(self, h_in):
        self.stream_1.record(self.fork)
        self.stream_2.wait(self.fork)

        self.d_in.copy_from(h_in, stream=self.stream_1)
        check(driver.cuMemsetD32Async(int(self.d_partial.handle), 0, self.nparts * 2,
                                      driver.CUstream(int(self.stream_2.handle))))
        self.stream_2.record()
        self.stream_1.wait(self.memset_done)

        blocks = (self.n + 255) // 256
        launch(self.stream_1, LaunchConfig(grid=blocks, block=256), self.reduce,
               int(self.d_in.handle), int(self.d_partial.handle), np.uint64(self.n), np.int32(self.nparts))
        launch(self.stream_1, LaunchConfig(grid=1, block=1), self.reduce_final,
               int(self.d_partial.handle), int(self.d_out.handle), np.int32(self.nparts))
        self.d_out.copy_to(self.h_out, stream=self.stream_1)
        self.stream_1.sync()
        return float(np.from_dlpack(self.h_out).view(np.float64)[0])


def main(n=1 << 22, rounds=5):
    dev = Device()
    dev.set_current()
    reducer = Reducer(dev, n)
    h_in = LegacyPinnedMemoryResource().allocate(n * 4)
    view = np.from_dlpack(h_in).view(np.float32)
    for r in range(rounds):
        view[:] = r + 1
        print(reducer.run(h_in), (r + 1) * n)


if __name__ == "__main__":
    main()
