"""Checkpoint mirror: keeps a shadow copy of the solver state on the device so
that a rejected step can be rolled back."""
import cupy as cp


class StateMirror:
    def __init__(self, arrays):
        self.arrays = arrays
        self.shadow = {k: cp.empty_like(v) for k, v in arrays.items()}

    def save(self):
        for name, a in self.arrays.items():
            self.shadow[name].data.copy_from_device(a.data, a.nbytes)

    def restore(self):
        for name, a in self.arrays.items():
            a.data.copy_from_device_async(self.shadow[name].data, a.nbytes,
                                          stream=cp.cuda.get_current_stream())


_step = cp.ElementwiseKernel(
    "float64 u, float64 v, float64 dt", "float64 un, float64 vn",
    "un = u + dt * v; vn = v - dt * sin(u)", "pendulum_step")


class AdaptiveSolver:
    def __init__(self, n, tol=1e-6):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.state = {
                "u": cp.linspace(0.0, 1.0, n),
                "v": cp.zeros(n),
            }
            self.mirror = StateMirror(self.state)
        self.stream.synchronize()
        self.dt = 1e-2
        self.tol = tol

    def _advance(self, dt):
        u, v = self.state["u"], self.state["v"]
        _step(u, v, dt, u, v)

    def _error(self):
        u, v = self.state["u"], self.state["v"]
        energy = 0.5 * v * v - cp.cos(u)
        return cp.abs(energy - self._energy0).max()

    def run(self, t_end):
        t = 0.0
        with self.stream:
            u, v = self.state["u"], self.state["v"]
            self._energy0 = 0.5 * v * v - cp.cos(u)
            while t < t_end:
                self.mirror.save()
                for _ in range(8):
                    self._advance(self.dt)
                err = float(self._error())
                if err > self.tol * 100:
                    self.mirror.restore()
                    self.dt *= 0.5
                    continue
                t += 8 * self.dt
                for _ in range(4):
                    self._advance(self.dt * 0.25)
                t += self.dt
            return self.state["u"].get(), self.state["v"].get()


if __name__ == "__main__":
    solver = AdaptiveSolver(1 << 22)
    u, v = solver.run(1.0)
    print(u[:4], v[:4])
