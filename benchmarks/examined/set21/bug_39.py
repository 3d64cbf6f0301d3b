"""Spectrogram engine: the per-frame kernels are captured once and replayed."""
import cupy as cp
import cupyx
import numpy as np

_SOURCE = r"""
extern "C" __global__ void apply_window(const float* frame, const float* window, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = frame[i] * window[i];
}
extern "C" __global__ void goertzel(const float* x, float* power, int n, int bins) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= bins) return;
    float coeff = 2.f * cosf(6.2831853f * k / n), s1 = 0.f, s2 = 0.f;
    for (int i = 0; i < n; ++i) { float s0 = x[i] + coeff * s1 - s2; s2 = s1; s1 = s0; }
    power[k] = s1 * s1 + s2 * s2 - coeff * s1 * s2;
}
"""


class GraphKernels:
    def __init__(self):
        module = cp.RawModule(code=_SOURCE)
        self.apply_window = module.get_function("apply_window")
        self.goertzel = module.get_function("goertzel")


class SpectrogramEngine:
    """Turns frames of ``n`` samples into ``bins`` powers."""

    def __init__(self, n, bins, kernels=None):
        self.n, self.bins = n, bins
        self.kernels = kernels or GraphKernels()
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.frame = cp.zeros(n, dtype=cp.float32)
            self.power = cp.zeros(bins, dtype=cp.float32)
        self.frame_host = cupyx.empty_pinned(n, dtype=np.float32)
        self.graph = self._build_graph()

    def _build_graph(self):
        window_host = np.hanning(self.n).astype(np.float32)
        with self.stream:
            window = cp.asarray(window_host)
            windowed = cp.empty(self.n, dtype=cp.float32)
            self.stream.synchronize()
            self.stream.begin_capture()
            self._enqueue(window, windowed)
            return self.stream.end_capture()

    def _enqueue(self, window, windowed):
        n = np.int32(self.n)
        self.kernels.apply_window(((self.n + 255) // 256,), (256,), (self.frame, window, windowed, n))
        self.kernels.goertzel(((self.bins + 63) // 64,), (64,), (windowed, self.power, n, np.int32(self.bins)))

    def transform(self, samples):
        self.stream.synchronize()
        np.copyto(self.frame_host, samples)
        self.frame.set(self.frame_host, stream=self.stream)
        self.graph.launch(self.stream)
        with self.stream:
            return self.power.copy()


class NoiseFloor:
    """Running estimate of the noise power in each bin."""

    def __init__(self, engine, decay=0.95):
        self.engine = engine
        self.decay = decay
        with engine.stream:
            self.level = cp.full(engine.bins, 1e-6, dtype=cp.float32)
            self.history = cp.zeros(engine.n, dtype=cp.float32)

    def update(self, samples):
        power = self.engine.transform(samples)
        with self.engine.stream:
            cp.minimum(power, self.level / self.decay, out=self.level)
            self.history[:] = cp.roll(self.history, 1)
            self.history[0] = self.level.mean()
            snr = 10 * cp.log10(power / self.level)
        return snr.get(stream=self.engine.stream)


def detect(signal, n=2048, bins=512, threshold=12.0):
    engine = SpectrogramEngine(n, bins)
    floor = NoiseFloor(engine)
    hits = []
    for start in range(0, len(signal) - n + 1, n // 2):
        snr = floor.update(signal[start:start + n].astype(np.float32))
        hits.append(np.flatnonzero(snr > threshold))
    return hits
