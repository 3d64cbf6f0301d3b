"""Warp telemetry: device samples trail to the host through a ring of pinned arrays."""
import numpy as np
import warp as wp


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + wp.vec3(0.0, -9.81, 0.0) * dt
    p = x[i] + v[i] * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
        v[i] = wp.vec3(v[i][0], -0.8 * v[i][1], v[i][2])
    x[i] = p


class RingSlot:
    def __init__(self, n, device):
        self.snapshot = wp.empty(n, dtype=wp.vec3, device=device)
        self.host = wp.empty(n, dtype=wp.vec3, device="cpu", pinned=True)
        self.landed = wp.Event(device)
        self.step = None


class Telemetry:
    """Snapshots are copied on their own stream and harvested some steps later."""

    def __init__(self, n, depth, device):
        self.device = device
        self.stream = wp.Stream(device)
        self.slots = [RingSlot(n, device) for _ in range(depth)]
        self.cursor = 0
        self.series = {}

    def _harvest(self, slot):
        if slot.step is None:
            return
        wp.synchronize_event(slot.landed)
        self.series[slot.step] = slot.host.numpy().mean(axis=0)
        slot.step = None

    def sample(self, step, x):
        slot = self.slots[self.cursor]
        self.cursor = (self.cursor + 1) % len(self.slots)
        self._harvest(slot)
        wp.copy(slot.snapshot, x)
        self.stream.wait_stream(wp.get_stream(self.device))
        wp.copy(slot.host, slot.snapshot, stream=self.stream)
        self.stream.record_event(slot.landed)
        slot.step = step

    def finish(self):
        for slot in self.slots:
            self._harvest(slot)
        return [self.series[k] for k in sorted(self.series)]


class Simulation:
    def __init__(self, n, device):
        rng = np.random.default_rng(2)
        self.device = device
        self.n = n
        self.x = wp.array(rng.random((n, 3)).astype(np.float32), dtype=wp.vec3, device=device)
        self.v = wp.zeros(n, dtype=wp.vec3, device=device)
        self.telemetry = Telemetry(n, 3, device)
        wp.synchronize_device(device)

    def run(self, steps):
        for step in range(steps):
            wp.launch(integrate, dim=self.n, inputs=[self.x, self.v, 0.005],
                      device=self.device)
            if step % 5 == 0:
                self.telemetry.sample(step, self.x)
        return self.telemetry.finish()


def main():
    wp.init()
    trace = Simulation(100_000, "cuda:0").run(200)
    print(len(trace), trace[0], trace[-1])


if __name__ == "__main__":
    main()
