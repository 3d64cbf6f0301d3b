import numpy as np
import warp as wp


@wp.kernel
def integrate(
    x_in: wp.array(dtype=wp.vec3),
    v_in: wp.array(dtype=wp.vec3),
    inv_mass: wp.array(dtype=float),
    gravity: wp.vec3,
    dt: float,
    x_out: wp.array(dtype=wp.vec3),
    v_out: wp.array(dtype=wp.vec3),
):
    tid = wp.tid()
    v = v_in[tid]
    if inv_mass[tid] > 0.0:
        v = v + gravity * dt
    x = x_in[tid] + v * dt
    if x[1] < 0.0:
        x = wp.vec3(x[0], 0.0, x[2])
        v = wp.vec3(v[0], -0.5 * v[1], v[2])
    x_out[tid] = x
    v_out[tid] = v


class State:
    def __init__(self, x, v, device):
        self.x = wp.array(x, dtype=wp.vec3, device=device)
        self.v = wp.array(v, dtype=wp.vec3, device=device)


class ParticleSim:
    def __init__(self, x, v, inv_mass, fps=60, substeps=15, device="cuda:0"):
        self.device = wp.get_device(device)
        self.substeps = substeps
        self.dt = 1.0 / fps / substeps
        self.state_0 = State(x, v, self.device)
        self.state_1 = State(x, v, self.device)
        self.inv_mass = wp.array(inv_mass, dtype=float, device=self.device)
        self.gravity = wp.vec3(0.0, -9.81, 0.0)
        wp.load_module(device=self.device)
        with wp.ScopedCapture(device=self.device) as capture:
            self.simulate()
        self.graph = capture.graph

    def simulate(self):
        for _ in range(self.substeps):
            s0, s1 = self.state_0, self.state_1
            wp.launch(
                integrate,
                dim=s0.x.shape[0],
                inputs=[s0.x, s0.v, self.inv_mass, self.gravity, self.dt],
                outputs=[s1.x, s1.v],
                device=self.device,
            )
            self.state_0, self.state_1 = self.state_1, self.state_0
        if self.substeps % 2 == 1:
            wp.copy(self.state_1.x, self.state_0.x)
            wp.copy(self.state_1.v, self.state_0.v)
            self.state_0, self.state_1 = self.state_1, self.state_0

    def step(self):
        wp.capture_launch(self.graph)

    def positions(self):
        return self.state_0.x.numpy()


def run(num_particles=4096, frames=120):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 4.0, (num_particles, 3)).astype(np.float32)
    sim = ParticleSim(x, np.zeros_like(x), np.ones(num_particles, dtype=np.float32))
    for _ in range(frames):
        sim.step()
    return sim.positions()
