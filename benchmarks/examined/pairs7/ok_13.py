"""Per-slice tomography filter: rmm buffers on explicit streams."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

ramp_filter = cp.RawKernel(r"""
extern "C" __global__ void ramp_filter(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] - 0.5f * (in[max(i - 1, 0)] + in[min(i + 1, n - 1)]);
}
""", "ramp_filter")

N = 1 << 18


def as_array(buffer):
    mem = cp.cuda.UnownedMemory(buffer.ptr, buffer.size, buffer)
    return cp.ndarray(N, cp.float32, memptr=cp.cuda.MemoryPointer(mem, 0))


class SliceFilter:
    def __init__(self):
        rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 28)
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(self.cp_stream)

    def __call__(self, projection):
        source = rmm.DeviceBuffer(size=4 * N, stream=self.stream)
        target = rmm.DeviceBuffer(size=4 * N, stream=self.stream)
        as_array(source).set(projection, stream=self.cp_stream)
        with self.cp_stream:
            ramp_filter((N // 256,), (256,), (as_array(source), as_array(target), np.int32(N)))
        out = np.empty(N, np.float32)
        target.copy_to_host(out.view(np.uint8), stream=self.stream)
        self.stream.synchronize()
        return out


def main():
    rng = np.random.default_rng(13)
    filtering = SliceFilter()
    for k in range(20):
        print(k, filtering(rng.random(N, dtype=np.float32)).std())


if __name__ == "__main__":
    main()
