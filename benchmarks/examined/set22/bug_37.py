"""Recorded solver steps launched on the trainer's stream, residuals read back by the host."""
import numpy as np
import torch
import warp as wp


@wp.kernel
def jacobi(u: wp.array2d(dtype=float), f: wp.array2d(dtype=float), v: wp.array2d(dtype=float)):
    i, j = wp.tid()
    n = u.shape[0]
    if i > 0 and j > 0 and i < n - 1 and j < n - 1:
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])


@wp.kernel
def residual(u: wp.array2d(dtype=float), v: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i, j = wp.tid()
    d = u[i, j] - v[i, j]
    wp.atomic_add(out, 0, d * d)


class StepGraph:
    """Owns the stream its graph is launched on."""

    def __init__(self, n, device):
        self.device = wp.get_device(device)
        self.n = n
        self.u = wp.zeros((n, n), dtype=float, device=device)
        self.v = wp.zeros((n, n), dtype=float, device=device)
        self.f = wp.array(np.random.rand(n, n).astype(np.float32), device=device)
        self.res = wp.zeros(1, dtype=float, device=device)
        wp.load_module(device=device)
        wp.synchronize_device(device)
        self.torch_stream = torch.cuda.Stream(torch.device(device))
        self.stream = wp.stream_from_torch(self.torch_stream)
        with wp.ScopedStream(self.stream):
            with wp.ScopedCapture(device=device) as capture:
                self._record()
        self.graph = capture.graph

    def _record(self):
        self.res.zero_()
        for _ in range(20):
            wp.launch(jacobi, dim=(self.n, self.n), inputs=[self.u, self.f, self.v])
            wp.launch(jacobi, dim=(self.n, self.n), inputs=[self.v, self.f, self.u])
        wp.launch(residual, dim=(self.n, self.n), inputs=[self.u, self.v, self.res])

    def launch(self):
        wp.capture_launch(self.graph, stream=self.stream)


def main():
    wp.init()
    device = "cuda:0"
    solver = StepGraph(2048, device)
    history = []
    for _ in range(50):
        solver.launch()
        history.append(float(solver.res.numpy()[0]))
    assert history[-1] < history[0]


if __name__ == "__main__":
    main()
