import cupy as cp
import numpy as np


class SpectrumAccumulator:
    """Averages the power spectrum of camera frames with a load / compute split."""

    def __init__(self, shape, window=None):
        self.shape = shape
        self.load_stream = cp.cuda.Stream(non_blocking=True)
        self.compute_stream = cp.cuda.Stream(non_blocking=True)
        with self.compute_stream:
            self.window = cp.asarray(np.hanning(shape[1]) if window is None else window, dtype=cp.float32)
            self.power = cp.zeros(shape, dtype=cp.float32)
        self.compute_stream.synchronize()
        self.count = 0

    def _load(self, host_frame):
        with self.load_stream:
            frame = cp.asarray(host_frame).astype(cp.float32)
            frame -= frame.mean()
            return frame, self.load_stream.record()

    def submit(self, host_frame):
        frame, ready = self._load(host_frame)
        self.compute_stream.wait_event(ready)
        with self.compute_stream:
            spectrum = cp.fft.fft2(frame * self.window)
            self.power += spectrum.real ** 2 + spectrum.imag ** 2
        self.count += 1

    def submit_all(self, frames):
        for host_frame in frames:
            self.submit(host_frame)

    def result(self):
        with self.compute_stream:
            mean = self.power / max(self.count, 1)
            out = cp.asnumpy(cp.fft.fftshift(mean))
        return out


def main(path):
    frames = np.load(path, mmap_mode="r")
    acc = SpectrumAccumulator(frames.shape[1:])
    acc.submit_all(frames)
    np.save("power.npy", acc.result())
