"""Particle fountain in Warp that writes snapshots while it keeps stepping."""
import numpy as np
import warp as wp


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + wp.vec3(0.0, -9.81, 0.0) * dt
    x[i] = x[i] + v[i] * dt


class SnapshotWriter:
    """Copies positions to the host on its own stream, one in flight."""

    def __init__(self, count, device):
        self.device = device
        self.stream = wp.Stream(device)
        self.image = wp.empty(count, dtype=wp.vec3, device=device)
        self.host = wp.empty(count, dtype=wp.vec3, device="cpu", pinned=True)
        self.done = wp.Event(device)
        self.pending = None
        self.saved = {}

    def collect(self):
        if self.pending is not None:
            wp.synchronize_event(self.done)
            self.saved[self.pending] = self.host.numpy().copy()
            self.pending = None

    def submit(self, step, positions):
        self.collect()
        wp.copy(self.image, positions)
        self.stream.wait_stream(wp.get_stream(self.device))
        wp.copy(self.host, self.image, stream=self.stream)
        self.stream.record_event(self.done)
        self.pending = step


def main(count=1 << 18, steps=600):
    wp.init()
    device = wp.get_device("cuda:0")
    rng = np.random.default_rng(0)
    with wp.ScopedDevice(device):
        x = wp.array(rng.random((count, 3), dtype=np.float32), dtype=wp.vec3)
        v = wp.array(rng.random((count, 3), dtype=np.float32), dtype=wp.vec3)
        writer = SnapshotWriter(count, device)
        for step in range(steps):
            wp.launch(integrate, dim=count, inputs=[x, v, 1.0 / 240.0])
            if step % 60 == 0:
                writer.submit(step, x)
        writer.collect()
    print({step: float(image[:, 1].mean()) for step, image in writer.saved.items()})


if __name__ == "__main__":
    main()
