"""Beamformer: captured weight-and-sum graph, beams recorded from a recorder stream."""
import cupy as cp
import cupyx
import numpy as np

beamform = cp.RawKernel(r"""
extern "C" __global__ void beamform(const float *v, const float *w, float *b, int t, int ants) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= t) return;
    float s = 0.f;
    for (int a = 0; a < ants; ++a) s += w[a] * v[a * t + i];
    b[i] = s;
}
""", "beamform")


class Beamformer:
    def __init__(self, antennas, samples):
        self.shape = (antennas, samples)
        self.main = cp.cuda.Stream(non_blocking=True)
        self.recorder = cp.cuda.Stream(non_blocking=True)
        self.volts = cp.zeros(self.shape, cp.float32)
        self.weights = cp.full(antennas, 1.0 / antennas, cp.float32)
        self.beam = cp.zeros(samples, cp.float32)
        self.formed = cp.cuda.Event(disable_timing=True)
        cp.cuda.Device().synchronize()
        with self.main:
            self._kernel()
            self.main.synchronize()
            self.main.begin_capture()
            self._kernel()
            self.graph = self.main.end_capture()

    def _kernel(self):
        a, t = self.shape
        beamform(((t + 127) // 128,), (128,), (self.volts, self.weights, self.beam, np.int32(t), np.int32(a)))

    def integrate(self, block, record):
        self.volts.set(block, stream=self.main)
        self.graph.launch(self.main)
        self.formed.record(self.main)
        self.recorder.wait_event(self.formed)
        self.beam.get(stream=self.recorder, out=record, blocking=False)


def main(antennas=64, samples=1 << 18, blocks=48):
    bf = Beamformer(antennas, samples)
    feed = cupyx.empty_pinned((blocks, antennas, samples), np.float32)
    feed[...] = np.random.default_rng(4).standard_normal((blocks, antennas, samples), dtype=np.float32)
    records = cupyx.empty_pinned((blocks, samples), np.float32)
    for block, record in zip(feed, records):
        bf.integrate(block, record)
    bf.recorder.synchronize()
    np.save("beams.npy", records)


if __name__ == "__main__":
    main()
