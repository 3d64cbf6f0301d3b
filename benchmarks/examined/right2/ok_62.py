"""Particle simulation in Warp with overlapped frame export."""
import numpy as np
import warp as wp


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] + wp.vec3(0.0, -9.81, 0.0) * dt
    p = pos[i] + v * dt
    if p[1] < 0.0:
        v = wp.vec3(v[0], -0.7 * v[1], v[2])
        p = wp.vec3(p[0], 0.0, p[2])
    vel[i] = v
    pos[i] = p


class Exporter:
    def __init__(self, count, device="cuda:0"):
        self.count = count
        self.device = wp.get_device(device)
        rng = np.random.default_rng(2)
        start = rng.uniform(0.5, 2.0, (count, 3)).astype(np.float32)
        self.pos = wp.array(start, dtype=wp.vec3, device=device)
        self.vel = wp.zeros(count, dtype=wp.vec3, device=device)
        self.frames = [wp.empty(count, dtype=wp.vec3, device=device) for _ in range(2)]
        self.pinned = [
            wp.empty(count, dtype=wp.vec3, device="cpu", pinned=True) for _ in range(2)
        ]
        self.sim = wp.Stream(device)
        self.io = wp.Stream(device)
        self.packed = [wp.Event(device) for _ in range(2)]
        self.shipped = [wp.Event(device) for _ in range(2)]
        wp.synchronize_device(device)

    def step(self, index, dt=1.0 / 240.0):
        k = index % 2
        if index >= 2:
            self.sim.wait_event(self.shipped[k])
        with wp.ScopedStream(self.sim, sync_enter=False):
            for _ in range(4):
                wp.launch(integrate, dim=self.count, inputs=[self.pos, self.vel, dt])
            wp.copy(self.frames[k], self.pos)
            wp.record_event(self.packed[k])
        self.io.wait_event(self.packed[k])
        wp.copy(self.pinned[k], self.frames[k], stream=self.io)
        self.io.record_event(self.shipped[k])

    def frame(self, index):
        k = index % 2
        wp.synchronize_event(self.shipped[k])
        return self.pinned[k].numpy().copy()


def main(steps=60):
    wp.init()
    exporter = Exporter(100_000)
    heights = []
    for i in range(steps):
        exporter.step(i)
        if i:
            heights.append(exporter.frame(i - 1)[:, 1].mean())
    heights.append(exporter.frame(steps - 1)[:, 1].mean())
    return heights


if __name__ == "__main__":
    print(main()[-1])
