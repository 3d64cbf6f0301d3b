"""Two branch solver step captured as one Warp graph."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def advect(x: wp.array(dtype=float), dt: float):
    i = wp.tid()
    x[i] = x[i] + dt


@wp.kernel
def forces(x: wp.array(dtype=float), f: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = -0.5 * x[i]


@wp.kernel
def damping(x: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    d[i] = 0.1 * x[i]


@wp.kernel
def combine(f: wp.array(dtype=float), d: wp.array(dtype=float),
            x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + f[i] - d[i]


class TwoBranchStep:
    def __init__(self, n, device="cuda:0"):
        self.n = n
        self.a = wp.Stream(device)
        self.b = wp.Stream(device)
        self.x = wp.zeros(n, dtype=float, device=device)
        self.f = wp.zeros(n, dtype=float, device=device)
        self.d = wp.zeros(n, dtype=float, device=device)
        wp.load_module(device=device)
        wp.synchronize_device(device)
        with wp.ScopedCapture(stream=self.a) as capture:
            self._step()
        self.graph = capture.graph

    def _step(self):
        wp.launch(advect, dim=self.n, inputs=[self.x, 0.01], stream=self.a)
        self.b.wait_stream(self.a)
        wp.launch(damping, dim=self.n, inputs=[self.x], outputs=[self.d],
                  stream=self.b)
        wp.launch(forces, dim=self.n, inputs=[self.x], outputs=[self.f],
                  stream=self.a)
        self.a.wait_stream(self.b)
        wp.launch(combine, dim=self.n, inputs=[self.f, self.d],
                  outputs=[self.x], stream=self.a)

    def run(self, steps):
        for _ in range(steps):
            wp.capture_launch(self.graph, stream=self.a)
        wp.synchronize_stream(self.a)
        return self.x.numpy()


if __name__ == "__main__":
    print(np.mean(TwoBranchStep(1 << 20).run(100)))
