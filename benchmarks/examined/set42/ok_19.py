"""Stream-ordered CuPy memory: every scratch array is given back behind its last reader."""
import contextlib

import cupy as cp
import numpy as np

autocorr = cp.RawKernel(r"""
extern "C" __global__
void autocorr(const float* x, float* r, int n, int lags) {
    int lag = blockIdx.x * blockDim.x + threadIdx.x;
    if (lag >= lags) return;
    float acc = 0.f;
    for (int i = 0; i + lag < n; ++i) acc += x[i] * x[i + lag];
    r[lag] = acc;
}
""", "autocorr")


class Scratch:
    """Allocates on the owner stream; the owner waits for the reader before the free."""

    def __init__(self, owner):
        self.owner = owner

    @contextlib.contextmanager
    def lend(self, build, reader):
        with self.owner:
            arrays = build()
        reader.wait_event(self.owner.record())
        holder = [arrays]
        del arrays
        try:
            yield holder
        finally:
            self.owner.wait_event(reader.record())
            holder.clear()


class Correlator:
    def __init__(self, lags):
        self.lags = lags
        self.ingest = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        self.scratch = Scratch(self.ingest)

    def _load(self, signal):
        x = cp.asarray(signal)
        x -= x.mean()
        return x

    def run(self, signals):
        out = cp.empty((len(signals), self.lags), cp.float32)
        cp.cuda.Stream.null.synchronize()
        for i, signal in enumerate(signals):
            with self.scratch.lend(lambda: self._load(signal), self.work) as held:
                with self.work:
                    autocorr(((self.lags + 63) // 64,), (64,),
                             (held[0], out[i], np.int32(signal.size), np.int32(self.lags)))
        self.work.synchronize()
        return out.get()


def main():
    cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
    rng = np.random.default_rng(1)
    signals = [rng.standard_normal(1 << 15).astype(np.float32) for _ in range(16)]
    result = Correlator(256).run(signals)
    print(result.shape, result[:, 0].mean())


if __name__ == "__main__":
    main()
