"""Interferometer channels: one stream and one plan for each polarization."""
import cupy as cp
import numpy as np
from cupyx.scipy.fft import fft, get_fft_plan

N = 1_000_003


class Polarization:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.plan = get_fft_plan(cp.empty(N, cp.complex64))

    def transform(self, voltages):
        with self.stream:
            return fft(cp.asarray(voltages), plan=self.plan)


class Correlator:
    def __init__(self):
        self.x, self.y = Polarization(), Polarization()
        self.product = cp.cuda.Event(disable_timing=True)
        with self.x.stream:
            self.visibility = cp.zeros(N, cp.complex64)

    def integrate(self, vx, vy):
        fx = self.x.transform(vx)
        fy = self.y.transform(vy)
        self.x.stream.wait_event(self.y.stream.record())
        with self.x.stream:
            self.visibility += fx * fy.conj()
        self.product.record(self.x.stream)
        self.y.stream.wait_event(self.product)

    def read(self):
        with self.x.stream:
            return self.visibility.get()


def main():
    rng = np.random.default_rng(25)
    correlator = Correlator()
    for _ in range(16):
        vx, vy = (rng.standard_normal(2 * N, dtype=np.float32).view(np.complex64) for _ in range(2))
        correlator.integrate(vx, vy)
    print(np.abs(correlator.read()).max())


if __name__ == "__main__":
    main()
