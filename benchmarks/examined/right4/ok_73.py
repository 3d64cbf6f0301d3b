import cupy as cp
import numpy as np
from nvidia.dali import fn, pipeline_def, types


class SpectrogramSource:
    def __init__(self, signals, batch, window=512):
        self.signals, self.batch = signals, batch
        self.window = window
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.taper = cp.hanning(window).astype(cp.float32)
        self.current = []
        self.at = 0

    def _one(self, signal):
        frames = cp.lib.stride_tricks.as_strided(
            signal, (signal.size // self.window, self.window),
            (self.window * signal.itemsize, signal.itemsize))
        return cp.log1p(cp.abs(cp.fft.rfft(frames * self.taper, axis=1))).astype(cp.float32)

    def __call__(self):
        picked = [self.signals[(self.at + i) % len(self.signals)] for i in range(self.batch)]
        self.at += self.batch
        with self.stream:
            raw = [cp.asarray(s) for s in picked]
            self.current = [self._one(s) for s in raw]
        self.stream.synchronize()
        return self.current


@pipeline_def(batch_size=16, num_threads=2, device_id=0, exec_pipelined=False, exec_async=False,
              prefetch_queue_depth=1)
def augment(source):
    spec = fn.external_source(source=source, device="gpu", dtype=types.FLOAT, ndim=2, cuda_stream=1)
    mean = fn.reductions.mean(spec)
    return spec - mean, mean


class Collector:
    def __init__(self, pipe):
        self.pipe = pipe
        self.means = []

    def step(self):
        spec, mean = self.pipe.run()
        self.means.extend(np.asarray(mean.as_cpu().as_array()).ravel().tolist())
        return [np.array(spec.as_cpu().at(i)) for i in range(len(spec))]


def main(batches=20):
    rng = np.random.default_rng(0)
    signals = [rng.normal(size=512 * 64).astype(np.float32) for _ in range(64)]
    pipe = augment(SpectrogramSource(signals, 16))
    pipe.build()
    collector = Collector(pipe)
    total = sum(float(s.std()) for _ in range(batches) for s in collector.step())
    return total / batches, collector.means


if __name__ == "__main__":
    print(main()[0])
