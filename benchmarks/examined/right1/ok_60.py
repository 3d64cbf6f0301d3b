"""Record particle positions while the Warp simulation goes on."""
import numpy as np
import warp as wp


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] + wp.vec3(0.0, -9.81, 0.0) * dt
    p = pos[i] + v * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], 0.0, p[2])
        v = wp.vec3(v[0], -0.5 * v[1], v[2])
    pos[i] = p
    vel[i] = v


class Recorder:
    def __init__(self, n, device, depth=2):
        self.device = wp.get_device(device)
        self.depth = depth
        self.copy_stream = wp.Stream(device)
        self.snap = [wp.empty(n, dtype=wp.vec3, device=device) for _ in range(depth)]
        self.host = [
            wp.empty(n, dtype=wp.vec3, device="cpu", pinned=True) for _ in range(depth)
        ]
        self.taken = [wp.Event(device) for _ in range(depth)]
        self.landed = [wp.Event(device) for _ in range(depth)]
        self.frame = 0
        self.heights = []

    def _collect(self, i):
        wp.synchronize_event(self.landed[i])
        self.heights.append(float(self.host[i].numpy()[:, 1].mean()))

    def push(self, pos):
        i = self.frame % self.depth
        if self.frame >= self.depth:
            self._collect(i)
        wp.copy(self.snap[i], pos)
        self.device.stream.record_event(self.taken[i])
        self.copy_stream.wait_event(self.taken[i])
        wp.copy(self.host[i], self.snap[i], stream=self.copy_stream)
        self.copy_stream.record_event(self.landed[i])
        self.frame += 1

    def flush(self):
        for k in range(max(0, self.frame - self.depth), self.frame):
            self._collect(k % self.depth)
        return self.heights


def main(n=1 << 18, steps=240, every=10):
    wp.init()
    device = "cuda:0"
    rng = np.random.default_rng(20)
    pos = wp.array(rng.random((n, 3)) + [0, 5, 0], dtype=wp.vec3, device=device)
    vel = wp.zeros(n, dtype=wp.vec3, device=device)
    recorder = Recorder(n, device)
    for step in range(steps):
        wp.launch(integrate, dim=n, inputs=[pos, vel, 1.0 / 240.0], device=device)
        if step % every == 0:
            recorder.push(pos)
    return recorder.flush()


if __name__ == "__main__":
    print(main())
