"""Inverse kinematics in Warp: the solver iteration is captured once and replayed."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def gradient(q: wp.array(dtype=float), target: wp.array(dtype=float), g: wp.array(dtype=float)):
    i = wp.tid()
    g[i] = wp.sin(q[i]) - target[i]


@wp.kernel
def descend(q: wp.array(dtype=float), g: wp.array(dtype=float), lr: float):
    i = wp.tid()
    q[i] = q[i] - lr * g[i] * wp.cos(q[i])


class IKSolver:
    def __init__(self, n, iterations=20, device="cuda:0"):
        self.n = n
        self.device = device
        self.q = wp.zeros(n, dtype=float, device=device)
        self.g = wp.zeros(n, dtype=float, device=device)
        self.target = wp.zeros(n, dtype=float, device=device)
        wp.load_module(device=device)
        with wp.ScopedCapture(device=device) as capture:
            for _ in range(iterations):
                self._iterate()
        self.graph = capture.graph

    def _iterate(self):
        wp.launch(gradient, dim=self.n, inputs=[self.q, self.target], outputs=[self.g], device=self.device)
        wp.launch(descend, dim=self.n, inputs=[self.q, self.g, 0.1], device=self.device)

    def solve(self, target):
        self.target.assign(target)
        wp.capture_launch(self.graph)
        return self.q.numpy()


def main():
    solver = IKSolver(1 << 16)
    rng = np.random.default_rng(1)
    warm = None
    for frame in range(120):
        pose = np.clip(np.sin(frame / 30) + 0.01 * rng.normal(size=1 << 16), -1, 1)
        warm = solver.solve(pose.astype(np.float32))
    print(warm[:8])


if __name__ == "__main__":
    main()
