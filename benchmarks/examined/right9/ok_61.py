import cupy as cp
import numpy as np

_advance = cp.ElementwiseKernel(
    "float32 a, float32 lap, float32 dt",
    "float32 u",
    "u = u + dt * (lap + a * u * (1.0f - u))",
    "advance",
)


class CapturedSolver:
    """Captures several explicit steps once and launches them many times."""

    def __init__(self, side, dt, steps):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.dt = cp.float32(dt)
        with self.stream:
            self.u = cp.zeros((side, side), cp.float32)
            self.a = cp.ones((side, side), cp.float32)
            self.lap = cp.zeros_like(self.u)
            self._step()
            self.stream.synchronize()
            self.stream.begin_capture()
            for _ in range(steps):
                self._step()
            self.graph = self.stream.end_capture()
            self.u.fill(0)

    def _step(self):
        u, lap = self.u, self.lap
        cp.multiply(u, cp.float32(-4), out=lap)
        cp.add(lap[1:], u[:-1], out=lap[1:])
        cp.add(lap[:-1], u[1:], out=lap[:-1])
        cp.add(lap[:, 1:], u[:, :-1], out=lap[:, 1:])
        cp.add(lap[:, :-1], u[:, 1:], out=lap[:, :-1])
        _advance(self.a, lap, self.dt, u)

    def run(self, rates, launches):
        with self.stream:
            self.a.set(rates, stream=self.stream)
            self.u += cp.float32(1e-3)
            for _ in range(launches):
                self.graph.launch(stream=self.stream)
            total = self.u.sum()
            return float(total)


def main():
    rng = np.random.default_rng(5)
    solver = CapturedSolver(512, 0.1, 10)
    for k in range(10):
        rates = rng.random((512, 512), dtype=np.float32)
        print(k, solver.run(rates, 20))


if __name__ == "__main__":
    main()
