"""Histograms of sensor batches with reusable device buffers."""
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
        self.host = cuda.pagelocked_empty(capacity, np.uint8)
        self.result = cuda.pagelocked_empty(bins, np.uint32)
        self.data = cuda.mem_alloc(capacity)
        self.bins = cuda.mem_alloc(bins * 4)
        self.active = False


class HistogramEngine:
    BINS = 256

    def __init__(self, capacity, lanes=2):
        module = SourceModule(SOURCE)
        self.kernel = module.get_function("histogram")
        self.housekeeping = cuda.Stream()
        self.lanes = [Lane(capacity, self.BINS) for _ in range(lanes)]

    def _clear(self, lane):
        cuda.memset_d32_async(lane.bins, 0, self.BINS, self.housekeeping)

    def submit(self, lane, batch):
        n = batch.size
        lane.host[:n] = batch
        self._clear(lane)
        cuda.memcpy_htod_async(lane.data, lane.host, lane.stream)
        self.kernel(lane.data, np.int32(n), lane.bins,
                    block=(256, 1, 1), grid=(128, 1), stream=lane.stream)
        cuda.memcpy_dtoh_async(lane.result, lane.bins, lane.stream)
        lane.active = True

    def collect(self, lane):
        lane.stream.synchronize()
        lane.active = False
        return lane.result.copy()

    def run(self, batches):
        outputs = []
        for i, batch in enumerate(batches):
            lane = self.lanes[i % len(self.lanes)]
            if lane.active:
                outputs.append(self.collect(lane))
            self.submit(lane, batch)
        for lane in self.lanes:
            if lane.active:
                outputs.append(self.collect(lane))
        return outputs


def main():
    rng = np.random.default_rng(1)
    capacity = 16 << 20
    engine = HistogramEngine(capacity)
    batches = (rng.integers(0, 256, size=capacity, dtype=np.uint8) for _ in range(6))
    for hist in engine.run(batches):
        print(int(hist.sum()), int(hist.max()))


if __name__ == "__main__":
    main()
