"""Message packing and unpacking of grid variables on two Numba streams."""
import numpy as np
from numba import cuda


@cuda.jit
def pack(var, idx, buf):
    i = cuda.grid(1)
    if i < idx.size:
        buf[i] = var[idx[i]]


@cuda.jit
def unpack(buf, idx, var):
    i = cuda.grid(1)
    if i < idx.size:
        var[idx[i]] = buf[i]


@cuda.jit
def relax(var, out):
    i = cuda.grid(1)
    if 0 < i < var.size - 1:
        out[i] = 0.25 * var[i - 1] + 0.5 * var[i] + 0.25 * var[i + 1]


class MessageBuffer:
    def __init__(self, size, stream):
        self.data = cuda.device_array(size, np.float64, stream=stream)
        self.packed = cuda.event(timing=False)
        self.unpacked = cuda.event(timing=False)


class HaloExchange:
    def __init__(self, pack_idx, unpack_idx, depth=2):
        self.pack_stream = cuda.stream()
        self.unpack_stream = cuda.stream()
        self.size = len(pack_idx)
        self.pack_idx = cuda.to_device(pack_idx, stream=self.pack_stream)
        self.unpack_idx = cuda.to_device(unpack_idx, stream=self.unpack_stream)
        self.buffers = [MessageBuffer(self.size, self.pack_stream) for _ in range(depth)]
        self.pack_stream.synchronize()
        self.unpack_stream.synchronize()
        for b in self.buffers:
            b.unpacked.record(self.unpack_stream)
        self.turn = 0

    def exchange(self, src, dst):
        buf = self.buffers[self.turn]
        self.turn = (self.turn + 1) % len(self.buffers)
        blocks = (self.size + 255) // 256
        buf.unpacked.wait(self.pack_stream)
        pack[blocks, 256, self.pack_stream](src, self.pack_idx, buf.data)
        buf.packed.record(self.pack_stream)
        buf.packed.wait(self.unpack_stream)
        unpack[blocks, 256, self.unpack_stream](buf.data, self.unpack_idx, dst)
        buf.unpacked.record(self.unpack_stream)


def main():
    n, halo = 1 << 20, 1 << 16
    idx_a = np.arange(n - 2 * halo, n - halo)
    idx_b = np.arange(halo)
    ex = HaloExchange(idx_a, idx_b)
    a = cuda.to_device(np.random.default_rng(0).random(n), stream=ex.pack_stream)
    a2 = cuda.to_device(np.zeros(n), stream=ex.pack_stream)
    b = cuda.to_device(np.zeros(n), stream=ex.unpack_stream)
    sums = cuda.pinned_array(n, np.float64)
    for _ in range(50):
        relax[(n + 255) // 256, 256, ex.pack_stream](a, a2)
        a, a2 = a2, a
        ex.exchange(a, b)
    b.copy_to_host(sums, stream=ex.unpack_stream)
    ex.unpack_stream.synchronize()
    print(sums[:halo].mean())
    ex.pack_stream.synchronize()


if __name__ == "__main__":
    main()
