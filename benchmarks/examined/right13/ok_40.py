"""Ping-pong particle simulation in Warp with snapshots drained on a copy stream."""
from collections import deque

import numpy as np
import warp as wp


@wp.kernel
def advance(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    x_next: wp.array(dtype=wp.vec3),
    dt: float,
):
    i = wp.tid()
    vel = v[i] + wp.vec3(0.0, -9.81 * dt, 0.0)
    pos = x[i] + vel * dt
    if pos[1] < 0.0:
        pos = wp.vec3(pos[0], -pos[1], pos[2])
        vel = wp.vec3(vel[0], -0.8 * vel[1], vel[2])
    v[i] = vel
    x_next[i] = pos


class Simulation:
    def __init__(self, positions, velocities, device="cuda:0", slots=3):
        self.device = wp.get_device(device)
        self.n = len(positions)
        self.v = wp.array(velocities, dtype=wp.vec3, device=self.device)
        self.x = [
            wp.array(positions, dtype=wp.vec3, device=self.device),
            wp.zeros(self.n, dtype=wp.vec3, device=self.device),
        ]
        self.current = 0
        self.readers = [None, None]
        self.copy = wp.Stream(self.device)
        self.hosts = [
            wp.zeros(self.n, dtype=wp.vec3, device="cpu", pinned=True) for _ in range(slots)
        ]
        self.idle = deque(range(slots))
        self.flying = deque()
        self.frames = []

    def step(self, dt):
        target = 1 - self.current
        if self.readers[target] is not None:
            self.device.stream.wait_event(self.readers[target])
            self.readers[target] = None
        wp.launch(
            advance,
            dim=self.n,
            inputs=[self.x[self.current], self.v, self.x[target], dt],
            device=self.device,
        )
        self.current = target

    def _land(self):
        slot, event = self.flying.popleft()
        wp.synchronize_event(event)
        self.frames.append(self.hosts[slot].numpy().copy())
        self.idle.append(slot)

    def snapshot(self):
        if not self.idle:
            self._land()
        slot = self.idle.popleft()
        with wp.ScopedStream(self.copy):
            wp.copy(self.hosts[slot], self.x[self.current])
            event = self.copy.record_event()
        self.readers[self.current] = event
        self.flying.append((slot, event))

    def finish(self):
        while self.flying:
            self._land()
        return self.frames


def main():
    wp.init()
    rng = np.random.default_rng(0)
    start = rng.uniform(0, 5, (100_000, 3)).astype(np.float32)
    sim = Simulation(start, np.zeros_like(start))
    for i in range(240):
        sim.step(1.0 / 120.0)
        if i % 7 == 0:
            sim.snapshot()
    frames = sim.finish()
    print(len(frames), frames[-1][:, 1].mean())


if __name__ == "__main__":
    main()
