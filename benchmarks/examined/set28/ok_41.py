"""Constraint solver in Warp: two colour groups solved on two streams, residual read back late."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def prepare(x: wp.array(dtype=float), b: wp.array(dtype=float), r: wp.array(dtype=float)):
    i = wp.tid()
    left = wp.max(i - 1, 0)
    right = wp.min(i + 1, x.shape[0] - 1)
    r[i] = b[i] - (2.0 * x[i] - x[left] - x[right])


@wp.kernel
def relax(r: wp.array(dtype=float), parity: int, omega: float, dx: wp.array(dtype=float)):
    i = 2 * wp.tid() + parity
    if i < r.shape[0]:
        dx[i] = 0.5 * omega * r[i]


@wp.kernel
def integrate(dx: wp.array(dtype=float), x: wp.array(dtype=float), norm: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + dx[i]
    wp.atomic_add(norm, 0, dx[i] * dx[i])


class ColourSolver:
    def __init__(self, n, device="cuda:0", depth=4):
        self.device = wp.get_device(device)
        self.n = n
        rng = np.random.default_rng(9)
        self.x = wp.zeros(n, dtype=float, device=self.device)
        self.b = wp.array(rng.standard_normal(n).astype(np.float32), device=self.device)
        self.r = wp.zeros(n, dtype=float, device=self.device)
        self.dx = wp.zeros(n, dtype=float, device=self.device)
        self.norm = wp.zeros(1, dtype=float, device=self.device)
        self.stream = wp.Stream(self.device)
        self.ready = wp.Event(self.device)
        self.done = wp.Event(self.device)
        self.host = [wp.zeros(1, dtype=float, device="cpu", pinned=True) for _ in range(depth)]
        self.copied = [wp.Event(self.device) for _ in range(depth)]
        self.pending = []
        wp.synchronize_device(self.device)

    def _relax(self, parity, omega):
        wp.launch(relax, dim=(self.n + 1) // 2, inputs=[self.r, parity, omega], outputs=[self.dx])

    def iterate(self, omega):
        wp.launch(prepare, dim=self.n, inputs=[self.x, self.b], outputs=[self.r])
        wp.record_event(self.ready)
        with wp.ScopedStream(self.stream, sync_enter=False):
            wp.wait_event(self.ready)
            self._relax(1, omega)
            wp.record_event(self.done)
        self._relax(0, omega)
        wp.wait_event(self.done)
        self.norm.zero_()
        wp.launch(integrate, dim=self.n, inputs=[self.dx, self.x], outputs=[self.norm])

    def report(self, index):
        slot = index % len(self.host)
        wp.copy(self.host[slot], self.norm)
        wp.record_event(self.copied[slot])
        self.pending.append((index, slot))

    def collect(self, keep):
        out = []
        while len(self.pending) > keep:
            index, slot = self.pending.pop(0)
            wp.synchronize_event(self.copied[slot])
            out.append((index, float(self.host[slot].numpy()[0])))
        return out

    def solve(self, iterations, omega=0.8):
        history = []
        with wp.ScopedDevice(self.device):
            for k in range(iterations):
                self.iterate(omega)
                self.report(k)
                history += self.collect(keep=len(self.host) - 1)
            history += self.collect(keep=0)
        return history


if __name__ == "__main__":
    for index, norm in ColourSolver(1 << 20).solve(100)[::10]:
        print(index, norm)
