"""Tiny runtime with buffers on several devices and a copy queue per device."""
import cupy as cp
import numpy as np

scale_add = cp.RawKernel(r"""
extern "C" __global__ void scale_add(const float* a, const float* b, float* out,
                                     float s, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = s * a[i] + b[i];
}
""", "scale_add")


class Device:
    _instances = {}

    def __init__(self, index):
        self.index = index
        with cp.cuda.Device(index):
            self.compute = cp.cuda.Stream(non_blocking=True)
            self.copy = cp.cuda.Stream(non_blocking=True)

    @classmethod
    def get(cls, index):
        if index not in cls._instances:
            cls._instances[index] = cls(index)
        return cls._instances[index]

    def new_event(self, stream):
        with cp.cuda.Device(self.index):
            event = cp.cuda.Event(disable_timing=True)
            event.record(stream)
        return event

    def synchronize(self):
        with cp.cuda.Device(self.index):
            self.copy.synchronize()
            self.compute.synchronize()


class Buffer:
    def __init__(self, device, size):
        self.device = Device.get(device)
        self.size = size
        with cp.cuda.Device(device):
            self.array = cp.empty(size, dtype=np.float32)

    def copyin(self, values):
        with cp.cuda.Device(self.device.index):
            self.array.set(values, stream=self.device.compute)
            self.device.compute.synchronize()
        return self

    def numpy(self):
        self.device.synchronize()
        with cp.cuda.Device(self.device.index):
            return self.array.get(stream=self.device.compute)


class BufferXfer:
    """Copies between two devices on the copy queue of the source."""

    def __call__(self, dest, src):
        queue = src.device.copy
        with cp.cuda.Device(src.device.index):
            queue.wait_event(src.device.new_event(src.device.compute))
            queue.wait_event(dest.device.new_event(dest.device.compute))
            cp.cuda.runtime.memcpyPeerAsync(
                dest.array.data.ptr, dest.device.index,
                src.array.data.ptr, src.device.index,
                src.array.nbytes, queue.ptr)
            done = src.device.new_event(queue)
            src.device.compute.wait_event(done)


class CompiledRunner:
    def __init__(self, kernel, block=256):
        self.kernel = kernel
        self.block = block

    def __call__(self, out, a, b, scale):
        device = out.device
        grid = ((out.size + self.block - 1) // self.block,)
        with cp.cuda.Device(device.index), device.compute:
            self.kernel(grid, (self.block,), (
                a.array, b.array, out.array, np.float32(scale), np.int64(out.size)))


def ring_sum(values, rounds=8):
    """Every device adds its neighbour's running sum to its own values."""
    xfer, run = BufferXfer(), CompiledRunner(scale_add)
    count = len(values)
    own = [Buffer(i, v.size).copyin(v) for i, v in enumerate(values)]
    acc = [Buffer(i, v.size).copyin(v) for i, v in enumerate(values)]
    inbox = [Buffer(i, v.size).copyin(np.zeros_like(v)) for i, v in enumerate(values)]
    for _ in range(rounds):
        for i in range(count):
            xfer(inbox[(i + 1) % count], acc[i])
        for i in range(count):
            run(acc[i], inbox[i], own[i], 0.5)
    return [a.numpy() for a in acc]


if __name__ == "__main__":
    n = cp.cuda.runtime.getDeviceCount()
    data = [np.full(1 << 24, i + 1, np.float32) for i in range(n)]
    print([float(a[0]) for a in ring_sum(data)])
