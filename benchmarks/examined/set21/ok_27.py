"""Stream-ordered suballocator with a free list for every stream."""
import threading
from collections import defaultdict

import numpy as np
from cuda.bindings import runtime as cudart
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest or None


class StreamOrderedMemoryResource:
    """Fixed-size blocks; the freeing stream reuses its own blocks without any wait."""

    def __init__(self, block_size, num_blocks):
        self.block_size = block_size
        self.slab = int(check(cudart.cudaMalloc(block_size * num_blocks)))
        self._lock = threading.Lock()
        self._fresh = [self.slab + i * block_size for i in range(num_blocks)]
        self._free = defaultdict(list)
        self._events = {}

    def _event_for(self, stream):
        event = self._events.get(stream)
        if event is None:
            event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
            self._events[stream] = event
        return event

    def allocate(self, nbytes, stream):
        if nbytes > self.block_size:
            raise MemoryError(nbytes)
        with self._lock:
            own = self._free[stream]
            if own:
                return own.pop()
            if self._fresh:
                return self._fresh.pop()
            return self._steal(stream)

    def _steal(self, stream):
        for other, blocks in self._free.items():
            if other != stream and blocks:
                check(cudart.cudaStreamWaitEvent(stream, self._events[other], 0))
                self._free[stream].extend(blocks)
                check(cudart.cudaEventRecord(self._event_for(stream), stream))
                blocks.clear()
                return self._free[stream].pop()
        raise MemoryError("pool exhausted")

    def deallocate(self, ptr, stream):
        with self._lock:
            check(cudart.cudaEventRecord(self._event_for(stream), stream))
            self._free[stream].append(ptr)

    def release(self):
        check(cudart.cudaDeviceSynchronize())
        check(cudart.cudaFree(self.slab))


SOURCE = """
extern "C" __global__ void fill(float* p, float v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = v;
}
extern "C" __global__ void accumulate(float* acc, const float* p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) acc[i] += p[i];
}
"""


class Worker(threading.Thread):
    def __init__(self, device_id, module, mr, n, rounds):
        super().__init__()
        self.device_id, self.module, self.mr, self.n, self.rounds = device_id, module, mr, n, rounds
        self.total = None

    def run(self):
        dev = Device(self.device_id)
        dev.set_current()
        stream = dev.create_stream()
        handle = int(stream.handle)
        fill, accumulate = self.module.get_kernel("fill"), self.module.get_kernel("accumulate")
        config = LaunchConfig(grid=(self.n + 255) // 256, block=256)
        acc = int(check(cudart.cudaMalloc(4 * self.n)))
        check(cudart.cudaMemsetAsync(acc, 0, 4 * self.n, handle))
        for i in range(self.rounds):
            temp = self.mr.allocate(4 * self.n, handle)
            launch(stream, config, fill, temp, np.float32(i), np.int32(self.n))
            launch(stream, config, accumulate, acc, temp, np.int32(self.n))
            self.mr.deallocate(temp, handle)
        out = np.empty(self.n, dtype=np.float32)
        check(cudart.cudaMemcpyAsync(out.ctypes.data, acc, out.nbytes,
                                     cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, handle))
        stream.sync()
        check(cudart.cudaFree(acc))
        self.total = out


def run(nthreads=4, n=1 << 16, rounds=64):
    dev = Device()
    dev.set_current()
    module = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{dev.arch}")).compile(
        "cubin", name_expressions=("fill", "accumulate"))
    mr = StreamOrderedMemoryResource(4 * n, num_blocks=nthreads + 2)
    workers = [Worker(dev.device_id, module, mr, n, rounds) for _ in range(nthreads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    mr.release()
    return [w.total for w in workers]
