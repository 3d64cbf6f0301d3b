"""Histograms of sensor batches; buffers are cleared on a shared housekeeping stream."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void histogram(const unsigned char *data, int n, unsigned int *bins)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[data[i]], 1u);
}
"""


class Lane:
    def __init__(self, capacity, bins):
        self.stream = cuda.Stream()
        self.cleared = cuda.Event(cuda.event_flags.DISABLE_TIMING)
        self.host = cuda.pagelocked_empty(capacity, np.uint8)
        self.result = cuda.pagelocked_empty(bins, np.uint32)
        self.data = cuda.mem_alloc(capacity)
        self.bins = cuda.mem_alloc(bins * 4)
        self.nbins = bins

    def clear(self, stream):
        cuda.memset_d32_async(self.bins, 0, self.nbins, stream)
        self.cleared.record(stream)

    def launch(self, kernel, batch):
        self.host[: batch.size] = batch
        cuda.memcpy_htod_async(self.data, self.host, self.stream)
        self.stream.wait_for_event(self.cleared)
        kernel(self.data, np.int32(batch.size), self.bins,
               block=(256, 1, 1), grid=(128, 1), stream=self.stream)
        cuda.memcpy_dtoh_async(self.result, self.bins, self.stream)

    def collect(self):
        self.stream.synchronize()
        return self.result.copy()


def run(batches, capacity, bins=256, count=2):
    kernel = SourceModule(SOURCE).get_function("histogram")
    housekeeping = cuda.Stream()
    idle = [Lane(capacity, bins) for _ in range(count)]
    busy, outputs = [], []
    for batch in batches:
        if not idle:
            lane = busy.pop(0)
            outputs.append(lane.collect())
            idle.append(lane)
        lane = idle.pop()
        lane.clear(housekeeping)
        lane.launch(kernel, batch)
        busy.append(lane)
    outputs.extend(lane.collect() for lane in busy)
    return outputs


def main():
    rng = np.random.default_rng(1)
    capacity = 16 << 20
    batches = (rng.integers(0, 256, size=capacity, dtype=np.uint8) for _ in range(6))
    for hist in run(batches, capacity):
        print(int(hist.sum()), int(hist.max()))


if __name__ == "__main__":
    main()
