"""Batched spectrograms with one cuFFT plan per (shape, stream)."""
import cupy as cp
from cupyx.scipy.fft import get_fft_plan, fft


class PlanCache:
    def __init__(self):
        self._plans = {}

    def get(self, template):
        key = (template.shape, template.dtype.char, cp.cuda.get_current_stream().ptr)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = get_fft_plan(template, axes=-1)
        return plan


class Spectrograph:
    def __init__(self, nfft, hop, n_streams=2):
        self.nfft, self.hop = nfft, hop
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_streams)]
        self.plans = PlanCache()
        self.window = cp.hanning(nfft).astype(cp.complex64)
        cp.cuda.get_current_stream().synchronize()

    def _frames(self, signal):
        n = 1 + (signal.size - self.nfft) // self.hop
        idx = cp.arange(self.nfft)[None, :] + self.hop * cp.arange(n)[:, None]
        return signal[idx] * self.window

    def __call__(self, host_signals):
        outputs = []
        for i, sig in enumerate(host_signals):
            with self.streams[i % len(self.streams)]:
                dev = cp.asarray(sig, dtype=cp.complex64)
                frames = self._frames(dev)
                with self.plans.get(frames):
                    spec = fft(frames, axis=-1)
                outputs.append(cp.abs(spec) ** 2)
        for s in self.streams:
            s.synchronize()
        return [o.get() for o in outputs]


if __name__ == "__main__":
    import numpy as np
    rng = np.random.default_rng(0)
    sg = Spectrograph(1024, 256)
    res = sg([rng.standard_normal(1 << 16).astype(np.complex64) for _ in range(6)])
    print(len(res), res[0].shape)
