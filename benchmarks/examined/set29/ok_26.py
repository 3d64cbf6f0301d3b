"""Reads a raw recording through GPUDirect Storage in chunks and reduces it.

Two device chunks are in rotation; each one is read and reduced on its own
stream, and the I/O future of a chunk is held until its reduction was taken."""
import cupy as cp
import kvikio
import numpy as np

_power = cp.ReductionKernel(
    "int16 x", "float64 y", "(double)x * x", "a + b", "y = a", "0", "chunk_power")


class Lane:
    def __init__(self, samples):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.chunk = cp.empty(samples, dtype=cp.int16)
        self.total = cp.zeros((), dtype=cp.float64)
        self.future = None
        self.expected = 0

    def start(self, f, nbytes, offset):
        self.expected = nbytes
        self.future = f.raw_read_async(self.chunk, self.stream.ptr, nbytes, offset)
        with self.stream:
            _power(self.chunk[:nbytes // 2], out=self.total)

    def finish(self):
        if self.future is None:
            return 0.0
        done = self.future.check_bytes_done()
        if done != self.expected:
            raise EOFError("short read: %d of %d" % (done, self.expected))
        self.future = None
        return float(self.total.get(stream=self.stream))


class PowerMeter:
    def __init__(self, samples=1 << 22, lanes=2):
        self.samples = samples
        self.lanes = [Lane(samples) for _ in range(lanes)]
        cp.cuda.Device().synchronize()

    def measure(self, path, nbytes):
        step = self.samples * 2
        acc = 0.0
        f = kvikio.CuFile(path, "r")
        try:
            for k, offset in enumerate(range(0, nbytes, step)):
                lane = self.lanes[k % len(self.lanes)]
                acc += lane.finish()
                lane.start(f, min(step, nbytes - offset), offset)
            for lane in self.lanes:
                acc += lane.finish()
        finally:
            f.close()
        return acc


if __name__ == "__main__":
    data = np.random.default_rng(0).integers(-99, 99, size=50_000_000, dtype=np.int16)
    data.tofile("/tmp/rec.raw")
    meter = PowerMeter()
    print(meter.measure("/tmp/rec.raw", data.nbytes), (data.astype(np.float64) ** 2).sum())
