import ctypes

import numpy as np
from cuda.core import (
    Device,
    DeviceMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

CODE = r"""
extern "C" __global__ void scale_add(const unsigned char* a, const unsigned char* b,
                                     unsigned char* out, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + 2 * b[i];
}
"""


class PatternGen:
    """Makes device buffers that hold a known byte pattern."""

    def __init__(self, device, size):
        self.device = device
        self.size = size
        self.mr = DeviceMemoryResource(device)
        self.stream = device.default_stream

    def make(self, seed):
        buf = self.mr.allocate(self.size, stream=self.stream)
        buf.fill(seed & 0xFF, stream=self.stream)
        return buf

    def empty(self):
        return self.mr.allocate(self.size, stream=self.stream)


def build_kernel(device):
    opts = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    prog = Program(CODE, code_type="c++", options=opts)
    return prog.compile("cubin", name_expressions=("scale_add",)).get_kernel("scale_add")


def check(size=1 << 20):
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = build_kernel(device)
    gen = PatternGen(device, size)

    a, b, out = gen.make(3), gen.make(5), gen.empty()
    host = LegacyPinnedMemoryResource().allocate(size)
    config = LaunchConfig(grid=(size + 255) // 256, block=256)
    launch(stream, config, kernel, a, b, out, np.uint64(size))
    out.copy_to(host, stream=stream)
    stream.sync()

    got = ctypes.string_at(int(host.handle), size)
    ok = got == bytes([13]) * size
    for buf in (a, b, out):
        buf.close(stream)
    host.close()
    stream.close()
    return ok


if __name__ == "__main__":
    print("ok" if check() else "mismatch")
