"""Contact reporting for a batch of simulated bodies, staged through pinned arrays."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(q: wp.array(dtype=wp.vec3), qd: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = qd[i] + wp.vec3(0.0, -9.81, 0.0) * dt
    qd[i] = v
    q[i] = q[i] + v * dt


@wp.kernel
def contacts(
    q: wp.array(dtype=wp.vec3),
    qd: wp.array(dtype=wp.vec3),
    stiffness: float,
    force: wp.array(dtype=wp.vec3),
    flag: wp.array(dtype=wp.int32),
):
    i = wp.tid()
    depth = -q[i][1]
    if depth > 0.0:
        force[i] = wp.vec3(0.0, stiffness * depth, 0.0)
        flag[i] = 1
        qd[i] = wp.vec3(qd[i][0], wp.abs(qd[i][1]) * 0.5, qd[i][2])
    else:
        force[i] = wp.vec3(0.0, 0.0, 0.0)
        flag[i] = 0


class BodyBatch:
    def __init__(self, count, device="cuda:0", seed=0):
        rng = np.random.default_rng(seed)
        self.count, self.device = count, device
        start = rng.uniform(0.0, 2.0, (count, 3)).astype(np.float32)
        self.q = wp.array(start, dtype=wp.vec3, device=device)
        self.qd = wp.zeros(count, dtype=wp.vec3, device=device)
        self.force = wp.zeros(count, dtype=wp.vec3, device=device)
        self.flag = wp.zeros(count, dtype=wp.int32, device=device)
        self.force_host = wp.zeros(count, dtype=wp.vec3, device="cpu", pinned=True)
        self.flag_host = wp.zeros(count, dtype=wp.int32, device="cpu", pinned=True)

    def step(self, dt):
        wp.launch(integrate, dim=self.count, inputs=[self.q, self.qd, dt], device=self.device)
        wp.launch(
            contacts,
            dim=self.count,
            inputs=[self.q, self.qd, 1.0e4, self.force, self.flag],
            device=self.device,
        )

    def stage(self):
        wp.copy(self.force_host, self.force)
        wp.copy(self.flag_host, self.flag)
        return self.force_host, self.flag_host


class ContactReporter:
    def __init__(self, bodies):
        self.bodies = bodies
        self.peak = 0.0
        self.events = 0

    def update(self):
        force, flag = self.bodies.stage()
        touching = flag.numpy().astype(bool)
        self.events += int(touching.sum())
        if touching.any():
            normal = force.numpy()[touching, 1]
            self.peak = max(self.peak, float(normal.max()))


def main():
    bodies = BodyBatch(500_000)
    reporter = ContactReporter(bodies)
    for frame in range(240):
        for _ in range(4):
            bodies.step(1.0 / 240.0)
        reporter.update()
    wp.synchronize_device(bodies.device)
    print(reporter.events, reporter.peak)


if __name__ == "__main__":
    main()
