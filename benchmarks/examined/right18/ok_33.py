"""Spectra delivered to a listener by stream callbacks (CuPy)."""
import threading

import cupy as cp
import cupyx
import numpy as np


class SpectrumFeed:
    def __init__(self, size, listener):
        self.size = size
        self.listener = listener
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.staging = cupyx.empty_pinned((size,), dtype=np.float32)
        self.landing = cupyx.empty_pinned((size // 2 + 1,), dtype=np.float32)
        with self.stream:
            self.window = cp.hanning(size).astype(cp.float32)
            self.signal = cp.zeros(size, dtype=cp.float32)
        self.staged = threading.Event()
        self.staged.set()
        self.outstanding = 0
        self.lock = threading.Condition()

    def _staging_read(self, _):
        self.staged.set()

    def _delivered(self, tag):
        try:
            self.listener(tag, self.landing.copy())
        finally:
            with self.lock:
                self.outstanding -= 1
                self.lock.notify_all()

    def submit(self, tag, samples):
        samples = np.asarray(samples, dtype=np.float32)
        if samples.shape != (self.size,):
            raise ValueError("wrong block length")
        self.staged.wait()
        self.staged.clear()
        self.staging[...] = samples
        with self.stream:
            self.signal.set(self.staging, stream=self.stream)
            self.stream.launch_host_func(self._staging_read, None)
            spectrum = cp.fft.rfft(self.signal * self.window)
            power = (spectrum.real**2 + spectrum.imag**2).astype(cp.float32)
            power.get(stream=self.stream, out=self.landing, blocking=False)
        with self.lock:
            self.outstanding += 1
        self.stream.launch_host_func(self._delivered, tag)

    def drain(self):
        with self.lock:
            while self.outstanding:
                self.lock.wait()

    def close(self):
        self.stream.synchronize()


def spectra(blocks, size=4096):
    found = {}
    feed = SpectrumFeed(size, found.__setitem__)
    try:
        for tag, block in enumerate(blocks):
            feed.submit(tag, block)
        feed.drain()
    finally:
        feed.close()
    return [found[tag] for tag in sorted(found)]
