"""Warp graph that carries its own upload and download; the host only fills and reads."""
import numpy as np
import warp as wp


@wp.kernel
def relax(target: wp.array(dtype=wp.float32), state: wp.array(dtype=wp.float32), rate: float):
    i = wp.tid()
    state[i] = state[i] + rate * (target[i] - state[i])


@wp.kernel
def energy(target: wp.array(dtype=wp.float32), state: wp.array(dtype=wp.float32),
           out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    d = target[i] - state[i]
    wp.atomic_add(out, 0, d * d)


class Mailbox:
    """Page-locked arrays at both ends of the graph."""

    def __init__(self, n):
        self.target = wp.zeros(n, dtype=wp.float32, device="cpu", pinned=True)
        self.energy = wp.zeros(1, dtype=wp.float32, device="cpu", pinned=True)


class GraphedRelaxer:
    def __init__(self, n, iterations, device):
        self.n = n
        self.device = device
        self.box = Mailbox(n)
        self.target = wp.zeros(n, dtype=wp.float32, device=device)
        self.state = wp.zeros(n, dtype=wp.float32, device=device)
        self.energy = wp.zeros(1, dtype=wp.float32, device=device)
        self.stream = wp.Stream(device)
        self.finished = wp.Event(device)
        wp.synchronize_device(device)
        wp.load_module(device=device)
        with wp.ScopedStream(self.stream):
            wp.capture_begin(device=device)
            self._body(iterations)
            self.graph = wp.capture_end(device=device)
        self.running = False

    def _body(self, iterations):
        wp.copy(self.target, self.box.target)
        for _ in range(iterations):
            wp.launch(relax, dim=self.n, inputs=[self.target, self.state, 0.1],
                      device=self.device)
        self.energy.zero_()
        wp.launch(energy, dim=self.n, inputs=[self.target, self.state, self.energy],
                  device=self.device)
        wp.copy(self.box.energy, self.energy)

    def submit(self, target):
        self.collect()
        self.box.target.numpy()[:] = target
        wp.capture_launch(self.graph, stream=self.stream)
        self.stream.record_event(self.finished)
        self.running = True

    def collect(self):
        if not self.running:
            return None
        wp.synchronize_event(self.finished)
        self.running = False
        return float(self.box.energy.numpy()[0])


def main():
    wp.init()
    rng = np.random.default_rng(8)
    relaxer = GraphedRelaxer(1 << 20, 20, "cuda:0")
    for step in range(12):
        relaxer.submit(rng.random(1 << 20, dtype=np.float32))
        upcoming = rng.random(16).mean()
        print(step, relaxer.collect(), upcoming)


if __name__ == "__main__":
    main()
