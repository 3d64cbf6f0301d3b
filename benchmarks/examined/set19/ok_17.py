"""Warp solver step captured once; CuPy writes the forces between the launches."""
import cupy as cp
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + f[i] * dt
    x[i] = x[i] + v[i] * dt


@wp.kernel
def clamp_ground(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), contacts: wp.array(dtype=int)):
    i = wp.tid()
    p = x[i]
    if p[1] < 0.0:
        x[i] = wp.vec3(p[0], 0.0, p[2])
        u = v[i]
        v[i] = wp.vec3(u[0], -0.5 * u[1], u[2])
        wp.atomic_add(contacts, 0, 1)


def from_cupy(array, dtype):
    """The Warp view keeps the CuPy owner alive."""
    view = wp.array(ptr=array.data.ptr, shape=(array.shape[0],), dtype=dtype, device=f"cuda:{array.device.id}")
    view._src = array
    return view


class Particles:
    def __init__(self, n, device="cuda:0"):
        self.n = n
        self.device = wp.get_device(device)
        self.stream = wp.Stream(self.device)
        self.cp_stream = cp.cuda.ExternalStream(self.stream.cuda_stream)
        rng = np.random.default_rng(0)
        with wp.ScopedStream(self.stream):
            self.x = wp.array(rng.uniform(0, 4, (n, 3)).astype(np.float32), dtype=wp.vec3, device=device)
            self.v = wp.zeros(n, dtype=wp.vec3, device=device)
            self.contacts = wp.zeros(1, dtype=int, device=device)
        with self.cp_stream:
            self.force = cp.zeros((n, 3), dtype=cp.float32)
            self.gravity = cp.asarray([0.0, -9.81, 0.0], dtype=cp.float32)
        self.f = from_cupy(self.force, wp.vec3)
        self.graph = None

    def _substeps(self, count, dt):
        self.contacts.zero_()
        for _ in range(count):
            wp.launch(integrate, dim=self.n, inputs=[self.x, self.v, self.f, dt], device=self.device)
            wp.launch(clamp_ground, dim=self.n, inputs=[self.x, self.v, self.contacts], device=self.device)

    def capture(self, count, dt):
        with wp.ScopedStream(self.stream):
            self._substeps(count, dt)
            wp.synchronize_stream(self.stream)
            with wp.ScopedCapture(device=self.device) as capture:
                self._substeps(count, dt)
        self.graph = capture.graph

    def step(self, wind):
        with self.cp_stream:
            drag = cp.sin(cp.arange(self.n, dtype=cp.float32) + wind)
            self.force[...] = self.gravity
            self.force[:, 0] += 0.1 * drag
        wp.capture_launch(self.graph, stream=self.stream)

    def read(self):
        wp.synchronize_stream(self.stream)
        return self.x.numpy(), int(self.contacts.numpy()[0])


if __name__ == "__main__":
    sim = Particles(1 << 18)
    sim.capture(count=8, dt=1.0 / 480.0)
    for frame in range(240):
        sim.step(wind=0.01 * frame)
        if frame % 60 == 59:
            positions, hits = sim.read()
            print(frame, positions[:, 1].mean(), hits)
