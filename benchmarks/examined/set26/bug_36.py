"""Physics sub-step recorded as a Warp graph with a side branch."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def broadphase(q: wp.array(dtype=wp.vec3), radius: float,
               count: wp.array(dtype=int), pairs: wp.array(dtype=int)):
    i = wp.tid()
    if q[i][1] < radius:
        slot = wp.atomic_add(count, 0, 1)
        pairs[slot] = i


@wp.kernel
def gravity(qd: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    qd[i] = qd[i] + wp.vec3(0.0, -9.81, 0.0) * dt


@wp.kernel
def resolve(count: wp.array(dtype=int), pairs: wp.array(dtype=int),
            qd: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    if i < count[0]:
        k = pairs[i]
        v = qd[k]
        qd[k] = wp.vec3(v[0], wp.abs(v[1]), v[2])


@wp.kernel
def integrate(q: wp.array(dtype=wp.vec3), qd: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    q[i] = q[i] + qd[i] * dt


class Simulator:
    def __init__(self, n, device="cuda:0"):
        self.n, self.device, self.dt = n, device, 1.0 / 600.0
        self.main = wp.Stream(device)
        self.side = wp.Stream(device)
        points = np.random.default_rng(0).random((n, 3)).astype(np.float32)
        self.q = wp.array(points, dtype=wp.vec3, device=device)
        self.qd = wp.zeros(n, dtype=wp.vec3, device=device)
        self.count = wp.zeros(1, dtype=int, device=device)
        self.pairs = wp.zeros(n, dtype=int, device=device)
        wp.load_module(device=device)
        wp.synchronize_device(device)
        with wp.ScopedCapture(stream=self.main) as capture:
            self.substep()
        self.graph = capture.graph

    def detect(self):
        with wp.ScopedStream(self.side, sync_enter=False):
            self.count.zero_()
            wp.launch(broadphase, dim=self.n, inputs=[self.q, 0.01],
                      outputs=[self.count, self.pairs])

    def substep(self):
        self.side.wait_stream(self.main)
        self.detect()
        with wp.ScopedStream(self.main, sync_enter=False):
            wp.launch(gravity, dim=self.n, inputs=[self.qd, self.dt])
            wp.launch(resolve, dim=self.n, inputs=[self.count, self.pairs],
                      outputs=[self.qd])
        self.main.wait_stream(self.side)
        wp.launch(integrate, dim=self.n, inputs=[self.q, self.qd, self.dt],
                  stream=self.main)

    def step(self, substeps=10):
        for _ in range(substeps):
            wp.capture_launch(self.graph, stream=self.main)
        wp.synchronize_stream(self.main)
        return self.q.numpy()


if __name__ == "__main__":
    sim = Simulator(1 << 20)
    for frame in range(60):
        q = sim.step()
    print(q[:, 1].min())
