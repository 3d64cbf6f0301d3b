"""Streaming external forces into a Warp particle simulation through pinned arrays."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3),
              f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] * 0.99 + f[i] * dt
    x[i] = x[i] + v[i] * dt


class ForceSlot:
    def __init__(self, n, device):
        self.host = wp.zeros(n, dtype=wp.vec3, device="cpu", pinned=True)
        self.view = self.host.numpy()
        self.dev = wp.zeros(n, dtype=wp.vec3, device=device)
        self.uploaded = wp.Event(device)
        self.consumed = wp.Event(device)
        self.fresh = True


class ForceUploader:
    def __init__(self, n, device, nslots=2):
        self.device = device
        self.copy_stream = wp.Stream(device)
        self.slots = [ForceSlot(n, device) for _ in range(nslots)]
        self.count = 0

    def push(self, forces):
        slot = self.slots[self.count % len(self.slots)]
        self.count += 1
        if not slot.fresh:
            wp.synchronize_event(slot.uploaded)
            self.copy_stream.wait_event(slot.consumed)
        slot.view[:] = forces
        wp.copy(slot.dev, slot.host, stream=self.copy_stream)
        self.copy_stream.record_event(slot.uploaded)
        slot.fresh = False
        return slot


class Simulation:
    def __init__(self, n, device):
        self.n = n
        self.device = device
        self.x = wp.zeros(n, dtype=wp.vec3, device=device)
        self.v = wp.zeros(n, dtype=wp.vec3, device=device)
        self.stream = wp.Stream(device)
        self.uploader = ForceUploader(n, device)
        wp.synchronize_device(device)

    def step(self, forces, dt):
        slot = self.uploader.push(forces)
        self.stream.wait_event(slot.uploaded)
        wp.launch(integrate, dim=self.n, inputs=[self.x, self.v, slot.dev, dt], stream=self.stream)
        self.stream.record_event(slot.consumed)

    def positions(self):
        wp.synchronize_stream(self.stream)
        return self.x.numpy()


def main(n=1 << 18, steps=100):
    sim = Simulation(n, wp.get_device("cuda:0"))
    rng = np.random.default_rng(0)
    for _ in range(steps):
        sim.step(rng.standard_normal((n, 3)).astype(np.float32), 1e-2)
    return sim.positions()


if __name__ == "__main__":
    print(main().mean(axis=0))
