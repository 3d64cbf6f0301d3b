"""Reverse-time imaging condition: source and receiver fields meet per shot."""
import cupy as cp
import numpy as np


def ricker(n, peak, dt=1e-3):
    t = (np.arange(n) - n // 4) * dt
    a = (np.pi * peak * t) ** 2
    return ((1.0 - 2.0 * a) * np.exp(-a)).astype(np.float32)


class ShotFields:
    """Synthesizes the source field of a shot."""

    def __init__(self, nt, nx):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.delay = cp.linspace(0.0, 1.0, nx, dtype=cp.float32)[:, None]
            self.wavelet = cp.asarray(ricker(nt, 25.0))[None, :]
        self.ready = cp.cuda.Event(disable_timing=True)

    def synthesize(self, shot):
        with self.stream:
            field = cp.sin(self.delay * (1.0 + 0.01 * shot)) * self.wavelet
        self.ready.record(self.stream)
        return field, self.ready


class ImagingCondition:
    def __init__(self, nt, nx):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.receiver = cp.random.random((nx, nt), dtype=cp.float32)
            self.image = cp.zeros((nx, nt), dtype=cp.float32)

    def accumulate(self, field, ready):
        self.stream.wait_event(ready)
        with self.stream:
            self.image += field * self.receiver

    def to_host(self):
        with self.stream:
            host = self.image.get()
        self.stream.synchronize()
        return host


def migrate(shots=80, nt=4096, nx=2048):
    fields = ShotFields(nt, nx)
    imaging = ImagingCondition(nt, nx)
    for shot in range(shots):
        field, ready = fields.synthesize(shot)
        imaging.accumulate(field, ready)
        del field
    return imaging.to_host()


if __name__ == "__main__":
    print(float(np.abs(migrate()).mean()))
