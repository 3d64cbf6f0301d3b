"""Row-group decoder: RMM buffers made on a fetch stream, freed only behind their consumer."""
import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream as RmmStream

_decode = cp.ElementwiseKernel(
    "raw uint8 bytes, int64 base", "int32 out",
    """
    long long o = base + (long long)i * 3;
    out = bytes[o] | (bytes[o + 1] << 8) | (bytes[o + 2] << 16);
    """,
    "decode_u24",
)


class Fetcher:
    def __init__(self, nbytes, depth=3):
        self.nbytes = nbytes
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = RmmStream(self.stream)
        self.ring = [cupyx.empty_pinned((nbytes,), np.uint8) for _ in range(depth)]
        self.busy = [None] * depth
        self.turn = 0

    def fetch(self, payload):
        k = self.turn % len(self.ring)
        self.turn += 1
        if self.busy[k] is not None:
            self.busy[k].synchronize()
        self.ring[k][:] = payload
        buf = rmm.DeviceBuffer(size=self.nbytes, stream=self.rmm_stream)
        mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
        raw = cp.ndarray((self.nbytes,), cp.uint8, cp.cuda.MemoryPointer(mem, 0))
        raw.set(self.ring[k], stream=self.stream)
        self.busy[k] = self.stream.record()
        return raw, self.busy[k]

    def retire(self, consumed):
        self.stream.wait_event(consumed)


class Decoder:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.values = cp.empty((columns, rows), dtype=cp.int32)
            self.minimum = cp.full(columns, np.iinfo(np.int32).max, dtype=cp.int32)
            self.maximum = cp.zeros(columns, dtype=cp.int32)

    def decode(self, raw, arrived):
        self.stream.wait_event(arrived)
        with self.stream:
            for c in range(self.columns):
                _decode(raw, c * self.rows * 3, self.values[c])
            cp.minimum(self.minimum, self.values.min(axis=1), out=self.minimum)
            cp.maximum(self.maximum, self.values.max(axis=1), out=self.maximum)
        return self.stream.record()

    def bounds(self):
        lo = self.minimum.get(stream=self.stream, blocking=True)
        hi = self.maximum.get(stream=self.stream, blocking=True)
        return lo, hi


def scan(groups, rows, columns):
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    fetcher = Fetcher(rows * columns * 3)
    decoder = Decoder(rows, columns)
    rng = np.random.default_rng(0)
    payload = rng.integers(0, 256, rows * columns * 3, dtype=np.uint8)
    for g in range(groups):
        raw, arrived = fetcher.fetch(np.roll(payload, g))
        consumed = decoder.decode(raw, arrived)
        fetcher.retire(consumed)
        del raw
    return decoder.bounds()


def main():
    lo, hi = scan(groups=48, rows=1 << 19, columns=6)
    for c, (a, b) in enumerate(zip(lo, hi)):
        print(f"column {c}: [{a}, {b}]")


if __name__ == "__main__":
    main()
