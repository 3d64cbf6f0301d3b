"""Paraxial beam propagation through a lens array; one step is replayed as a CUDA graph."""
import cupy as cp
import numpy as np


class LensArrayPropagator:
    def __init__(self, n=1024, pitch=4.0e-6, dz=1.0e-3, wavelength=1.06e-6):
        self.n = n
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.graph = None
        k = 2.0 * np.pi / wavelength
        with self.stream:
            x = (cp.arange(n, dtype=cp.float32) - n / 2) * pitch
            r2 = x[:, None] ** 2 + x[None, :] ** 2
            self.field = cp.exp(-r2 / (0.2 * n * pitch) ** 2).astype(cp.complex64)
            self.lens = cp.exp(-0.5j * k * r2 / 0.5).astype(cp.complex64)
            self.phase = cp.exp(1j * (k * dz - r2 / (2.0 * dz * k))).astype(cp.complex64)
            self.absorber = cp.exp(-((r2 / r2.max()) ** 8)).astype(cp.float32)
        self.stream.synchronize()

    def _step(self):
        self.field = self.field * self.lens
        self.field = self.field * self.phase
        self.field = self.field * self.absorber

    def warm_up(self):
        with self.stream:
            start = self.field
            self._step()
            self.field = start
        self.stream.synchronize()

    def build(self):
        self.warm_up()
        with self.stream:
            self.stream.begin_capture()
            self._step()
            self.graph = self.stream.end_capture()

    def power(self):
        with self.stream:
            intensity = cp.abs(self.field) ** 2
            return float(intensity.sum())

    def peak(self):
        with self.stream:
            intensity = cp.abs(self.field)
            return float(intensity.max())

    def run(self, steps, report_every=10):
        if self.graph is None:
            self.build()
        history = []
        for step in range(steps):
            self.graph.launch(stream=self.stream)
            if step % report_every == 0:
                history.append((step, self.power(), self.peak()))
        self.stream.synchronize()
        return history


def main():
    propagator = LensArrayPropagator()
    for step, power, peak in propagator.run(200):
        print(f"{step:4d} {power:12.5e} {peak:10.4f}")


if __name__ == "__main__":
    main()
