"""Ocean model: a tracer is carried on its own stream with velocities of the main one."""
import cupy as cp
import numpy as np

NY, NX = 1024, 2048


class Ocean:
    def __init__(self):
        self.dynamics = cp.cuda.Stream(non_blocking=True)
        self.tracers = cp.cuda.Stream(non_blocking=True)
        with self.dynamics:
            self.u = cp.zeros((NY, NX), cp.float32)
            self.v = cp.zeros((NY, NX), cp.float32)
            self.eta = cp.random.standard_normal((NY, NX), dtype=cp.float32)
        with self.tracers:
            self.salt = cp.ones((NY, NX), cp.float32)
        cp.cuda.Device().synchronize()

    def _momentum(self, dt):
        with self.dynamics:
            self.u -= dt * (cp.roll(self.eta, -1, 1) - self.eta)
            self.v -= dt * (cp.roll(self.eta, -1, 0) - self.eta)
            self.eta -= dt * (self.u - cp.roll(self.u, 1, 1) + self.v - cp.roll(self.v, 1, 0))
            return self.dynamics.record()

    def _advect(self, dt):
        with self.tracers:
            gx = cp.roll(self.salt, -1, 1) - self.salt
            gy = cp.roll(self.salt, -1, 0) - self.salt
            self.salt -= dt * (self.u * gx + self.v * gy)
            return self.tracers.record()

    def step(self, dt=1e-2):
        momentum = self._momentum(dt)
        self.dynamics.wait_event(momentum)
        advected = self._advect(dt)
        self.dynamics.wait_event(advected)

    def salinity(self):
        with self.tracers:
            return self.salt.get()


def main():
    ocean = Ocean()
    for _ in range(500):
        ocean.step()
    print(ocean.salinity().mean())


if __name__ == "__main__":
    main()
