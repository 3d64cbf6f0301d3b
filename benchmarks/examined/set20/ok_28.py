"""Thread-safe cuFFT plan cache used by concurrent correlators."""
import threading
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np
from cupyx.scipy import fft as cufft


class PlanCache:
    def __init__(self):
        self._plans = {}
        self._lock = threading.Lock()

    def get(self, array, axes, stream):
        key = (array.shape, array.dtype.char, axes, stream.ptr)
        with self._lock:
            plan = self._plans.get(key)
            if plan is None:
                plan = cufft.get_fft_plan(array, axes=axes, value_type="C2C")
                self._plans[key] = plan
        return plan


class Correlator:
    def __init__(self, template):
        self.cache = PlanCache()
        self.local = threading.local()
        self.template_f = cp.conj(cp.fft.fft2(cp.asarray(template, dtype=cp.complex64)))
        cp.cuda.Stream.null.synchronize()

    def _stream(self):
        if not hasattr(self.local, "stream"):
            self.local.stream = cp.cuda.Stream(non_blocking=True)
        return self.local.stream

    def __call__(self, image):
        stream = self._stream()
        with stream:
            work = cp.asarray(image, dtype=cp.complex64)
            plan = self.cache.get(work, (0, 1), stream)
            spectrum = cufft.fft2(work, plan=plan, overwrite_x=True)
            spectrum *= self.template_f
            corr = cufft.ifft2(spectrum, plan=plan, overwrite_x=True)
            score = cp.abs(corr)
            peak = cp.argmax(score)
            value = score.ravel()[peak]
            result = int(peak.get()), float(value.get())
        stream.synchronize()
        return result


def main(n=64, size=512, workers=4):
    rng = np.random.default_rng(0)
    images = [rng.random((size, size), dtype=np.float32) for _ in range(n)]
    correlator = Correlator(images[0])
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(correlator, images))


if __name__ == "__main__":
    print(main()[:3])
