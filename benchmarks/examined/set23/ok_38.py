"""Stream simulation snapshots to the host while the next steps run."""
import numpy as np
import warp as wp


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] + wp.vec3(0.0, -9.8, 0.0) * dt
    p = pos[i] + v * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
        v = wp.vec3(v[0], -0.5 * v[1], v[2])
    pos[i] = p
    vel[i] = v


@wp.kernel
def snapshot(pos: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = pos[i]


class Slot:
    def __init__(self, n, device):
        self.dev = wp.zeros(n, dtype=wp.vec3, device=device)
        self.host = wp.zeros(n, dtype=wp.vec3, device="cpu", pinned=True)
        self.taken = wp.Event(device)
        self.copied = wp.Event(device)
        self.frame = None


class Recorder:
    def __init__(self, n, device):
        self.n = n
        self.device = device
        self.copy_stream = wp.Stream(device)
        self.slots = [Slot(n, device) for _ in range(2)]
        self.frames = {}
        wp.synchronize_device(device)

    def _collect(self, slot):
        if slot.frame is not None:
            wp.synchronize_event(slot.copied)
            self.frames[slot.frame] = slot.host.numpy().copy()
            slot.frame = None

    def capture(self, frame, pos):
        slot = self.slots[frame % 2]
        self._collect(slot)
        main = wp.get_stream(self.device)
        wp.launch(snapshot, dim=self.n, inputs=[pos], outputs=[slot.dev], device=self.device)
        main.record_event(slot.taken)
        self.copy_stream.wait_event(slot.taken)
        wp.copy(slot.host, slot.dev, stream=self.copy_stream)
        self.copy_stream.record_event(slot.copied)
        slot.frame = frame

    def finish(self):
        for slot in self.slots:
            self._collect(slot)
        return [self.frames[k] for k in sorted(self.frames)]


def simulate(n=200_000, steps=60, substeps=8, dt=1.0 / 480.0):
    wp.init()
    device = wp.get_device("cuda:0")
    rng = np.random.default_rng(0)
    pos = wp.array(rng.random((n, 3)).astype(np.float32), dtype=wp.vec3, device=device)
    vel = wp.zeros(n, dtype=wp.vec3, device=device)
    recorder = Recorder(n, device)
    for frame in range(steps):
        for _ in range(substeps):
            wp.launch(integrate, dim=n, inputs=[pos, vel, dt], device=device)
        recorder.capture(frame, pos)
    return recorder.finish()


if __name__ == "__main__":
    print(len(simulate()))
