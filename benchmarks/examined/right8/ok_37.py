"""Warp particle step with a render copy on its own stream."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + wp.vec3(0.0, -9.8, 0.0) * dt
    p = x[i] + v[i] * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
        v[i] = wp.vec3(v[i][0], -v[i][1], v[i][2])
    x[i] = p


class Simulation:
    def __init__(self, n, device="cuda:0"):
        self.device = wp.get_device(device)
        self.x = wp.array(np.random.rand(n, 3), dtype=wp.vec3, device=device)
        self.v = wp.zeros(n, dtype=wp.vec3, device=device)
        self.frame = wp.zeros(n, dtype=wp.vec3, device=device)
        self.host = [wp.zeros(n, dtype=wp.vec3, device="cpu", pinned=True) for _ in range(2)]
        self.sim = wp.Stream(device)
        self.out = wp.Stream(device)
        self.snapped = wp.Event(device)
        self.copied = [wp.Event(device) for _ in range(2)]
        self.count = 0
        wp.synchronize_device(device)

    def step(self, dt, substeps=8):
        for _ in range(substeps):
            wp.launch(integrate, dim=self.x.shape[0], inputs=[self.x, self.v, dt], stream=self.sim)

    def snapshot(self):
        slot = self.count % 2
        if self.count:
            self.sim.wait_event(self.copied[1 - slot])
        wp.copy(self.frame, self.x, stream=self.sim)
        self.sim.record_event(self.snapped)
        self.out.wait_event(self.snapped)
        wp.copy(self.host[slot], self.frame, stream=self.out)
        self.out.record_event(self.copied[slot])
        self.count += 1
        return slot

    def frames(self, n, dt=1.0 / 240.0):
        pending = None
        for _ in range(n):
            self.step(dt)
            slot = self.snapshot()
            if pending is not None:
                wp.synchronize_event(self.copied[pending])
                yield self.host[pending].numpy().copy()
            pending = slot
        if pending is not None:
            wp.synchronize_event(self.copied[pending])
            yield self.host[pending].numpy().copy()


if __name__ == "__main__":
    for f in Simulation(10000).frames(12):
        print(f[:, 1].mean())
