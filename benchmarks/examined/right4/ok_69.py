import numpy as np
import warp as wp


@wp.kernel
def relax(src: wp.array2d(dtype=float), dst: wp.array2d(dtype=float), gain: wp.array(dtype=float)):
    i, j = wp.tid()
    n = src.shape[0]
    m = src.shape[1]
    if i > 0 and j > 0 and i < n - 1 and j < m - 1:
        mean = 0.25 * (src[i - 1, j] + src[i + 1, j] + src[i, j - 1] + src[i, j + 1])
        dst[i, j] = src[i, j] + gain[0] * (mean - src[i, j])
    else:
        dst[i, j] = src[i, j]


class PinnedRow:
    def __init__(self, shape, device):
        self.host = wp.zeros(shape, dtype=float, device="cpu", pinned=True)
        self.event = wp.Event(device)
        self.pending = False

    def settle(self):
        if self.pending:
            wp.synchronize_event(self.event)
            self.pending = False
        return self.host.numpy()

    def launched(self, stream):
        stream.record_event(self.event)
        self.pending = True


class RelaxSolver:
    def __init__(self, n, substeps=8, device="cuda:0"):
        self.stream = wp.Stream(device)
        self.a = wp.array(np.random.default_rng(0).random((n, n)), dtype=float, device=device)
        self.b = wp.zeros((n, n), dtype=float, device=device)
        self.gain = wp.zeros(1, dtype=float, device=device)
        self.control = PinnedRow(1, device)
        self.frame = PinnedRow((n, n), device)
        wp.load_module(device=device)
        wp.synchronize_device(device)
        with wp.ScopedStream(self.stream):
            with wp.ScopedCapture(device) as capture:
                for _ in range(substeps):
                    wp.launch(relax, dim=(n, n), inputs=[self.a, self.b, self.gain])
                    wp.launch(relax, dim=(n, n), inputs=[self.b, self.a, self.gain])
        self.graph = capture.graph

    def step(self, gain):
        self.control.settle()[0] = gain
        wp.copy(self.gain, self.control.host, stream=self.stream)
        self.control.launched(self.stream)
        wp.capture_launch(self.graph, stream=self.stream)

    def snapshot(self):
        self.frame.settle()
        wp.copy(self.frame.host, self.a, stream=self.stream)
        self.frame.launched(self.stream)
        return self.frame.settle().copy()


def main():
    wp.init()
    solver = RelaxSolver(512)
    spread = []
    for i in range(50):
        solver.step(0.9 / (1 + i))
        if i % 10 == 9:
            spread.append(float(np.std(solver.snapshot())))
    return spread
