"""Block reductions that land in page-locked boards through their host address."""
import cupy as cp
import numpy as np

SOURCE = r"""
extern "C" __global__ void advance(float* x, int n, float t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = sinf(0.001f * i + t) * expf(-1e-6f * i);
}
extern "C" __global__ void block_energy(const float* x, int n, float* board) {
    __shared__ float part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    part[threadIdx.x] = v * v;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) board[blockIdx.x] = part[0];
}
"""
MODULE = cp.RawModule(code=SOURCE)


def host_visible(count, dtype=np.float32):
    nbytes = count * np.dtype(dtype).itemsize
    mem = cp.cuda.alloc_pinned_memory(nbytes)
    host = np.frombuffer(mem, dtype=dtype, count=count)
    owner = cp.cuda.UnownedMemory(mem.ptr, nbytes, mem, device_id=cp.cuda.Device().id)
    return host, cp.ndarray((count,), dtype=dtype, memptr=cp.cuda.MemoryPointer(owner, 0))


class Lane:
    def __init__(self, n, blocks):
        self.field = cp.empty(n, dtype=cp.float32)
        self.host, self.board = host_visible(blocks)
        self.made = cp.cuda.Event(disable_timing=True)
        self.measured = cp.cuda.Event(block=True, disable_timing=True)
        self.time = None


class EnergyMonitor:
    THREADS = 256

    def __init__(self, n, lanes=3):
        self.n = n
        self.blocks = (n + self.THREADS - 1) // self.THREADS
        self.lanes = [Lane(n, self.blocks) for _ in range(lanes)]
        self.producer = cp.cuda.Stream(non_blocking=True)
        self.meter = cp.cuda.Stream(non_blocking=True)
        self.advance = MODULE.get_function("advance")
        self.energy = MODULE.get_function("block_energy")
        self.series = []

    def collect(self, lane):
        if lane.time is None:
            return
        lane.measured.synchronize()
        self.series.append((lane.time, float(lane.host.sum(dtype=np.float64))))
        lane.time = None

    def submit(self, k, t):
        lane = self.lanes[k % len(self.lanes)]
        self.collect(lane)
        grid, block = (self.blocks,), (self.THREADS,)
        with self.producer:
            self.advance(grid, block, (lane.field, np.int32(self.n), np.float32(t)))
            lane.made.record()
        self.meter.wait_event(lane.made)
        with self.meter:
            self.energy(grid, block, (lane.field, np.int32(self.n), lane.board))
            lane.measured.record()
        lane.time = t

    def finish(self, k):
        for step in range(len(self.lanes)):
            self.collect(self.lanes[(k + step) % len(self.lanes)])
        return self.series


def main(passes=300):
    monitor = EnergyMonitor(1 << 20)
    for k in range(passes):
        monitor.submit(k, 0.05 * k)
    series = monitor.finish(passes)
    assert len(series) == passes
    values = np.array([e for _, e in series])
    print("energy", values.min(), values.max())


if __name__ == "__main__":
    main()
