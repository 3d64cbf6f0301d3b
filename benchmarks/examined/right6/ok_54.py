import warp as wp


@wp.kernel
def advect(u: wp.array(dtype=float), out: wp.array(dtype=float), c: float):
    i = wp.tid()
    j = wp.max(i - 1, 0)
    out[i] = u[i] - c * (u[i] - u[j])


@wp.kernel
def react(u: wp.array(dtype=float), out: wp.array(dtype=float), k: float):
    i = wp.tid()
    out[i] = k * u[i] * (1.0 - u[i])


@wp.kernel
def combine(a: wp.array(dtype=float), b: wp.array(dtype=float), u: wp.array(dtype=float)):
    i = wp.tid()
    u[i] = a[i] + b[i]


class Solver:
    def __init__(self, n, device):
        self.n = n
        self.main = wp.Stream(device)
        self.side = wp.Stream(device)
        with wp.ScopedStream(self.main):
            self.u = wp.full(n, 0.1, dtype=float, device=device)
            self.a = wp.zeros(n, dtype=float, device=device)
            self.b = wp.zeros(n, dtype=float, device=device)
        wp.load_module(device=device)
        wp.synchronize_device(device)
        self.graph = None

    def _substep(self):
        self.side.wait_stream(self.main)
        wp.launch(advect, dim=self.n, inputs=[self.u, self.a, 0.5], stream=self.main)
        wp.launch(react, dim=self.n, inputs=[self.u, self.b, 0.1], stream=self.side)
        self.main.wait_stream(self.side)
        wp.launch(combine, dim=self.n, inputs=[self.a, self.b, self.u], stream=self.main)

    def advance(self, frames, substeps=8):
        if self.graph is None:
            wp.capture_begin(stream=self.main)
            try:
                for _ in range(substeps):
                    self._substep()
            finally:
                self.graph = wp.capture_end(stream=self.main)
        for _ in range(frames):
            wp.capture_launch(self.graph, stream=self.main)
        wp.synchronize_stream(self.main)
        return self.u.numpy()


if __name__ == "__main__":
    wp.init()
    solver = Solver(1 << 16, "cuda:0")
    for _ in range(3):
        print(solver.advance(10).mean())
