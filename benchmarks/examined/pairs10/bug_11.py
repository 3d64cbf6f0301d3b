"""Beamformer with a captured CuPy graph; weights follow the steering angle."""
import cupy as cp
import numpy as np

APPLY = cp.RawKernel(r"""
extern "C" __global__
void apply_weights(const float *samples, const float *weights, float *beam, int channels, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float acc = 0.f;
    for (int c = 0; c < channels; ++c) acc += weights[c] * samples[c * n + i];
    beam[i] = acc;
}
""", "apply_weights")


class Beamformer:
    def __init__(self, channels, n):
        self.channels, self.n = channels, n
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.samples = cp.zeros((channels, n), dtype=cp.float32)
            self.weights = cp.full(channels, 1.0 / channels, dtype=cp.float32)
            self.beam = cp.zeros(n, dtype=cp.float32)
            self._launch()
            self.stream.synchronize()
            self.stream.begin_capture()
            self._launch()
            self.graph = self.stream.end_capture()

    def _launch(self):
        blocks = (self.n + 255) // 256
        APPLY((blocks,), (256,), (self.samples, self.weights, self.beam,
                                  np.int32(self.channels), np.int32(self.n)))

    def steer(self, angle):
        """Set the weights for the given steering angle."""
        phase = np.cos(np.arange(self.channels) * np.sin(angle)).astype(np.float32)
        with self.stream:
            self.weights = cp.asarray(phase / self.channels)

    def process(self, block):
        with self.stream:
            self.samples.set(block)
            self.graph.launch(self.stream)
            out = self.beam.get()
        self.stream.synchronize()
        return out


def scan(channels=64, n=1 << 18):
    rng = np.random.default_rng(8)
    former = Beamformer(channels, n)
    block = rng.standard_normal((channels, n), dtype=np.float32)
    power = []
    for angle in np.linspace(-1.0, 1.0, 41):
        former.steer(angle)
        power.append(float((former.process(block) ** 2).mean()))
    return power


if __name__ == "__main__":
    print(scan())
