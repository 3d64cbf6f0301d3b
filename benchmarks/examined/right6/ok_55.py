from collections import deque

import numpy as np
import warp as wp


@wp.kernel
def wave(t: float, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.sin(t + float(i) * 0.01)


class Recorder:
    """Copies every frame to pinned memory a few frames behind the simulation."""

    def __init__(self, n, depth, device):
        self.n = n
        self.sim = wp.Stream(device)
        self.io = wp.Stream(device)
        self.free = deque()
        for _ in range(depth):
            self.free.append((wp.empty(n, dtype=float, device=device),
                              wp.empty(n, dtype=float, device="cpu", pinned=True),
                              wp.Event(device), wp.Event(device)))
        wp.synchronize_device(device)
        self.pending = deque()
        self.means = []

    def _retire(self):
        frame = self.pending.popleft()
        _, host, _, saved = frame
        wp.synchronize_event(saved)
        self.means.append(float(host.numpy().mean()))
        self.free.append(frame)

    def frame(self, t):
        if not self.free:
            self._retire()
        dev, host, drawn, saved = entry = self.free.popleft()
        wp.launch(wave, dim=self.n, inputs=[t, dev], stream=self.sim)
        self.sim.record_event(drawn)
        self.io.wait_event(drawn)
        wp.copy(host, dev, stream=self.io)
        self.io.record_event(saved)
        self.pending.append(entry)

    def finish(self):
        while self.pending:
            self._retire()
        return np.array(self.means)


if __name__ == "__main__":
    wp.init()
    rec = Recorder(1 << 18, 3, "cuda:0")
    for k in range(25):
        rec.frame(0.1 * k)
    print(rec.finish().round(3))
