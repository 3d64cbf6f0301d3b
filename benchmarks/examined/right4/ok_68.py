import numpy as np
import warp as wp


@wp.kernel
def advance(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] + wp.vec3(0.0, -9.8, 0.0) * dt
    p = pos[i] + v * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
        v = wp.vec3(v[0], -v[1] * 0.8, v[2])
    pos[i] = p
    vel[i] = v


@wp.kernel
def energy(pos: wp.array(dtype=wp.vec3), out: wp.array(dtype=float), slot: int):
    i = wp.tid()
    wp.atomic_add(out, slot, pos[i][1] * 9.8)


class Bridge:
    def __init__(self, device):
        self.there = wp.Event(device)
        self.back = wp.Event(device)
        self.used = False

    def publish(self, stream):
        stream.record_event(self.there)

    def enter(self, stream):
        stream.wait_event(self.there)

    def leave(self, stream):
        stream.record_event(self.back)
        self.used = True

    def reclaim(self, stream):
        if self.used:
            stream.wait_event(self.back)


class Simulation:
    def __init__(self, n, steps, device="cuda:0"):
        self.n, self.steps = n, steps
        rng = np.random.default_rng(0)
        self.pos = wp.array(rng.random((n, 3)), dtype=wp.vec3, device=device)
        self.vel = wp.zeros(n, dtype=wp.vec3, device=device)
        self.energies = wp.zeros(steps, dtype=float, device=device)
        wp.synchronize_device(device)
        self.sim, self.probe = wp.Stream(device), wp.Stream(device)
        self.bridge = Bridge(device)

    def step(self, k):
        with wp.ScopedStream(self.sim):
            self.bridge.reclaim(self.sim)
            wp.launch(advance, dim=self.n, inputs=[self.pos, self.vel, 0.01])
            self.bridge.publish(self.sim)
        with wp.ScopedStream(self.probe):
            self.bridge.enter(self.probe)
            wp.launch(energy, dim=self.n, inputs=[self.pos, self.energies, k])
            self.bridge.leave(self.probe)

    def run(self):
        for k in range(self.steps):
            self.step(k)
        wp.synchronize_stream(self.probe)
        return self.energies.numpy()


if __name__ == "__main__":
    wp.init()
    print(Simulation(100_000, 200).run()[-1])
