"""Recorder of a digital signal processing pipeline: channelised blocks go to
NVMe through GPUDirect Storage directly from device memory."""
import cupy as cp
import kvikio
import numpy as np


class Channelizer:
    def __init__(self, n_chan, n_spec):
        self.n_chan, self.n_spec = n_chan, n_spec
        self.window = cp.hanning(n_chan).astype(cp.float32)

    def __call__(self, voltages, out):
        spec = cp.fft.rfft(voltages.reshape(self.n_spec, self.n_chan) * self.window, axis=1)
        out[...] = (spec.real ** 2 + spec.imag ** 2)[:, :out.shape[1]]


class Recorder:
    def __init__(self, path, shape):
        self.shape = shape
        self.file = kvikio.CuFile(path, "w")
        self.buffers = [cp.empty(shape, dtype=cp.float32) for _ in range(2)]
        self.pending = [None, None]
        self.offset = 0
        self.turn = 0

    def acquire(self):
        k = self.turn
        if self.pending[k] is not None:
            self.pending[k].get()
        return self.buffers[k]

    def commit(self):
        k = self.turn
        buf = self.buffers[k]
        self.pending[k] = self.file.pwrite(buf, buf.nbytes, self.offset)
        self.offset += buf.nbytes
        self.turn ^= 1

    def close(self):
        for p in self.pending:
            if p is not None:
                p.get()
        self.file.close()


class Pipeline:
    def __init__(self, path, n_chan=4096, n_spec=512):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.chan = Channelizer(n_chan, n_spec)
        self.recorder = Recorder(path, (n_spec, n_chan // 2))
        self.stream.synchronize()

    def process(self, packet):
        with self.stream:
            volts = cp.asarray(packet).astype(cp.float32)
            out = self.recorder.acquire()
            self.chan(volts, out)
            self.recorder.commit()

    def close(self):
        self.stream.synchronize()
        self.recorder.close()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    pipe = Pipeline("/tmp/beam.fil")
    for _ in range(64):
        pipe.process(rng.integers(-32, 32, size=4096 * 512, dtype=np.int8))
    pipe.close()
