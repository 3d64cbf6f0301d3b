"""KV slices handed to a second process through a CUDA IPC mapping (CuPy, one GPU)."""
import multiprocessing as mp

import cupy as cp
import numpy as np

SLICE = (32, 2, 128, 128)
COUNT = int(np.prod(SLICE))

project = cp.RawKernel(
    r"""
extern "C" __global__ void project(float* kv, const float* x, int n, int step, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) v = v * 0.9999f + 0.0001f * x[(i + r) % n];
    kv[i] = v + step;
}
""",
    "project",
)


class SliceExporter:
    """Lives in the prefill process and owns the memory."""

    def __init__(self, channel):
        cp.cuda.set_allocator(None)
        self.channel = channel
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.kv = cp.zeros(COUNT, dtype=cp.float32)
        self.x = cp.linspace(0, 1, COUNT, dtype=cp.float32)
        cp.cuda.Device().synchronize()
        self.channel.send(cp.cuda.runtime.ipcGetMemHandle(self.kv.data.ptr))

    def compute(self, step, rounds=2000):
        with self.stream:
            project(((COUNT + 255) // 256,), (256,),
                    (self.kv, self.x, np.int32(COUNT), np.int32(step), np.int32(rounds)))

    def publish(self, step):
        self.channel.send(("slice", step, COUNT))

    def wait_taken(self):
        return self.channel.recv()

    def stop(self):
        self.channel.send(("stop", -1, 0))
        self.channel.recv()


class SliceImporter:
    """Lives in the decode process and maps the exporter's memory once."""

    def __init__(self, channel):
        self.channel = channel
        self.handle = channel.recv()
        self.ptr = cp.cuda.runtime.ipcOpenMemHandle(self.handle)
        mem = cp.cuda.UnownedMemory(self.ptr, COUNT * 4, self)
        self.remote = cp.ndarray((COUNT,), cp.float32, cp.cuda.MemoryPointer(mem, 0))
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.cache = cp.zeros(COUNT, dtype=cp.float32)

    def retrieve(self):
        with self.stream:
            cp.copyto(self.cache, self.remote)
            mean = self.cache.mean()
        self.stream.synchronize()
        return float(mean)

    def serve(self):
        means = []
        while True:
            kind, step, _ = self.channel.recv()
            if kind == "stop":
                break
            means.append((step, self.retrieve()))
            self.channel.send(step)
        print("means", [(s, round(m, 3)) for s, m in means[:8]])
        cp.cuda.runtime.ipcCloseMemHandle(self.ptr)
        self.channel.send("done")


def decode_main(channel):
    cp.cuda.Device(0).use()
    SliceImporter(channel).serve()


def prefill_main(channel, steps):
    cp.cuda.Device(0).use()
    exporter = SliceExporter(channel)
    for step in range(steps):
        exporter.compute(step)
        exporter.publish(step)
        exporter.wait_taken()
    exporter.stop()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    left, right = mp.Pipe()
    peer = mp.Process(target=decode_main, args=(right,))
    peer.start()
    prefill_main(left, 32)
    peer.join()
