"""Particle simulation with overlapped read-back (NVIDIA Warp)."""
import numpy as np
import warp as wp


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    a = wp.vec3(0.0, -9.8, 0.0) - 0.1 * v[i]
    v[i] = v[i] + a * dt
    p = x[i] + v[i] * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
        v[i] = wp.vec3(v[i][0], -0.5 * v[i][1], v[i][2])
    x[i] = p


class Recorder:
    def __init__(self, count, device, depth=2):
        self.stream = wp.Stream(device)
        self.frozen = [wp.zeros(count, dtype=wp.vec3, device=device) for _ in range(depth)]
        self.host = [
            wp.zeros(count, dtype=wp.vec3, device="cpu", pinned=True) for _ in range(depth)
        ]
        self.landed = [wp.Event(device) for _ in range(depth)]
        self.waiting = [False] * depth
        self.frames = []
        self.turn = 0

    def capture(self, x):
        slot = self.turn
        self.turn = (slot + 1) % len(self.host)
        if self.waiting[slot]:
            self._collect(slot)
        wp.copy(self.frozen[slot], x)
        with wp.ScopedStream(self.stream):
            wp.copy(self.host[slot], self.frozen[slot])
            self.stream.record_event(self.landed[slot])
        self.waiting[slot] = True

    def _collect(self, slot):
        wp.synchronize_event(self.landed[slot])
        self.frames.append(np.array(self.host[slot].numpy(), copy=True))
        self.waiting[slot] = False

    def finish(self):
        depth = len(self.host)
        for step in range(depth):
            slot = (self.turn + step) % depth
            if self.waiting[slot]:
                self._collect(slot)
        frames, self.frames = self.frames, []
        return frames


class Simulation:
    def __init__(self, count, device="cuda:0", seed=1):
        rng = np.random.default_rng(seed)
        self.device = device
        self.count = count
        self.x = wp.array(rng.random((count, 3)), dtype=wp.vec3, device=device)
        self.v = wp.zeros(count, dtype=wp.vec3, device=device)
        self.recorder = Recorder(count, device)

    def run(self, steps, every=10, dt=1.0 / 240.0):
        try:
            for step in range(steps):
                wp.launch(
                    integrate, self.count, inputs=[self.x, self.v, dt], device=self.device
                )
                if step % every == 0:
                    self.recorder.capture(self.x)
        finally:
            frames = self.recorder.finish()
        return frames


def main():
    wp.init()
    sim = Simulation(100_000)
    first = sim.run(100)
    second = sim.run(100)
    return len(first) + len(second)
