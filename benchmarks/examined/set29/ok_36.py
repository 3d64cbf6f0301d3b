"""Cloth-like particle solver in Warp: the sub-steps of a frame are captured
once, per-frame parameters and read-backs go through pinned arrays."""
import numpy as np
import warp as wp


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3),
              wind: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    force = wind[0] - v[i] * 0.1 + wp.vec3(0.0, -9.81, 0.0)
    vi = v[i] + force * dt
    xi = x[i] + vi * dt
    if xi[1] < 0.0:
        xi = wp.vec3(xi[0], 0.0, xi[2])
        vi = wp.vec3(vi[0], -0.4 * vi[1], vi[2])
    v[i] = vi
    x[i] = xi


class ReadbackSlot:
    def __init__(self, n, device):
        self.host = wp.empty(n, dtype=wp.vec3, device="cpu", pinned=True)
        self.done = wp.Event(device)
        self.frame = None


class ParticleSim:
    def __init__(self, n=200_000, substeps=16, device="cuda:0"):
        self.device = wp.get_device(device)
        rng = np.random.default_rng(0)
        self.x = wp.array(rng.random((n, 3)).astype(np.float32) * 10.0, dtype=wp.vec3, device=self.device)
        self.v = wp.zeros(n, dtype=wp.vec3, device=self.device)
        self.wind = wp.zeros(1, dtype=wp.vec3, device=self.device)
        self.wind_host = wp.zeros(1, dtype=wp.vec3, device="cpu", pinned=True)
        self.wind_sent = wp.Event(self.device)
        self.slots = [ReadbackSlot(n, self.device) for _ in range(2)]
        self.stream = wp.Stream(self.device)
        self.frame = 0
        wp.load_module(device=self.device)
        wp.synchronize_device(self.device)
        with wp.ScopedCapture(stream=self.stream) as capture:
            for _ in range(substeps):
                wp.launch(integrate, dim=n, inputs=[self.x, self.v, self.wind, 1.0 / 60.0 / substeps],
                          stream=self.stream)
        self.graph = capture.graph

    def step(self, wind):
        if self.frame > 0:
            wp.synchronize_event(self.wind_sent)
        self.wind_host.numpy()[0] = wind
        wp.copy(self.wind, self.wind_host, stream=self.stream)
        self.stream.record_event(self.wind_sent)
        wp.capture_launch(self.graph, stream=self.stream)
        slot = self.slots[self.frame % 2]
        wp.copy(slot.host, self.x, stream=self.stream)
        self.stream.record_event(slot.done)
        slot.frame = self.frame
        self.frame += 1

    def latest(self, lag=0):
        slot = self.slots[(self.frame - 1 - lag) % 2]
        wp.synchronize_event(slot.done)
        return slot.frame, slot.host.numpy().mean(axis=0)


if __name__ == "__main__":
    wp.init()
    sim = ParticleSim()
    for k in range(60):
        sim.step((np.sin(0.1 * k), 0.0, 1.0))
        if k > 0:
            print(*sim.latest(lag=1))
    print(*sim.latest())
