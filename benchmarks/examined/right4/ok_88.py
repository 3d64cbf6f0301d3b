import numpy as np
from cuda.core.experimental import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

SOURCE = r"""
extern "C" __global__ void wave(float *out, int n, float phase)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sinf(0.001f * i + phase);
}
"""


class WaveKernel:
    def __init__(self, device):
        options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
        self.kernel = Program(SOURCE, code_type="c++", options=options).compile("cubin").get_kernel("wave")

    def launch(self, stream, buffer, n, phase):
        config = LaunchConfig(grid=(n + 255) // 256, block=256)
        launch(stream, config, self.kernel, buffer, np.int32(n), np.float32(phase))


class Slot:
    def __init__(self, device, stream, pinned, n):
        self.buffer = device.allocate(4 * n, stream=stream)
        self.host = pinned.allocate(4 * n)
        self.view = np.from_dlpack(self.host).view(np.float32)
        self.copied = None

    def wait(self):
        if self.copied is not None:
            self.copied.sync()
            return float(np.abs(self.view).mean())
        return None


class WaveProducer:
    def __init__(self, n, depth=2):
        self.device = Device(0)
        self.device.set_current()
        self.compute, self.copy = self.device.create_stream(), self.device.create_stream()
        self.kernel = WaveKernel(self.device)
        pinned = LegacyPinnedMemoryResource()
        self.n = n
        self.slots = [Slot(self.device, self.compute, pinned, n) for _ in range(depth)]

    def emit(self, i, phase):
        slot = self.slots[i % len(self.slots)]
        mean = slot.wait()
        if slot.copied is not None:
            self.compute.wait(slot.copied)
        self.kernel.launch(self.compute, slot.buffer, self.n, phase)
        self.copy.wait(self.compute.record())
        slot.buffer.copy_to(slot.host, stream=self.copy)
        slot.copied = self.copy.record()
        return mean

    def close(self):
        last = [slot.wait() for slot in self.slots]
        self.compute.wait(self.copy.record())
        for slot in self.slots:
            slot.buffer.close(self.compute)
        self.compute.sync()
        return last


def main(n=1 << 20, rounds=10):
    producer = WaveProducer(n)
    means = [producer.emit(i, 0.1 * i) for i in range(rounds)]
    return [m for m in means if m is not None] + producer.close()
