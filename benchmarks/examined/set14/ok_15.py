import os
import threading
from concurrent.futures import ThreadPoolExecutor

os.environ["CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"] = "1"

import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402


class ScratchCache:
    """Hands out scratch arrays; one of each kind for every thread."""

    def __init__(self):
        self._arrays = {}
        self._lock = threading.Lock()

    def get(self, name, shape, dtype):
        key = (threading.get_ident(), name, shape, np.dtype(dtype))
        with self._lock:
            array = self._arrays.get(key)
            if array is None:
                array = self._arrays[key] = cp.empty(shape, dtype)
        return array


_scratch = ScratchCache()


@cp.fuse()
def _whiten(re, im, floor):
    power = re * re + im * im
    return 1.0 / cp.sqrt(cp.maximum(power, floor))


def phase_correlation(reference, image):
    """Shift between two images by phase correlation."""
    shape = reference.shape
    ref = _scratch.get("ref", shape, np.float32)
    img = _scratch.get("img", shape, np.float32)
    ref.set(reference)
    img.set(image)
    cross = cp.fft.rfft2(ref) * cp.conj(cp.fft.rfft2(img))
    cross *= _whiten(cross.real, cross.imag, 1e-12)
    surface = cp.fft.irfft2(cross, s=shape)
    peak = int(surface.argmax().get())
    dy, dx = divmod(peak, shape[1])
    return (
        dy - shape[0] if dy > shape[0] // 2 else dy,
        dx - shape[1] if dx > shape[1] // 2 else dx,
    )


def register(frames, threads=4):
    frames = [np.ascontiguousarray(f, dtype=np.float32) for f in frames]
    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(phase_correlation, a, b) for a, b in zip(frames, frames[1:])]
        shifts = [job.result() for job in jobs]
    return np.cumsum(np.asarray(shifts), axis=0)
