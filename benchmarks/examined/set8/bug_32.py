import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3),
              f: wp.array(dtype=wp.vec3), inv_mass: wp.array(dtype=float), dt: float):
    tid = wp.tid()
    v1 = v[tid] + f[tid] * inv_mass[tid] * dt
    v[tid] = v1
    x[tid] = x[tid] + v1 * dt


class WarpIntegrator:
    """Particle integrator that runs on torch tensors from a captured graph."""

    def __init__(self, x, v, inv_mass, dt, substeps=8):
        self.device = wp.device_from_torch(x.device)
        self.x_t, self.v_t = x, v
        self.f_t = torch.zeros_like(x)
        self.x = wp.from_torch(x, dtype=wp.vec3)
        self.v = wp.from_torch(v, dtype=wp.vec3)
        self.f = wp.from_torch(self.f_t, dtype=wp.vec3)
        self.inv_mass = wp.from_torch(inv_mass)
        self.dt = dt / substeps
        self.substeps = substeps
        self.graph = None
        self.stream = wp.stream_from_torch(torch.cuda.current_stream(x.device))
        wp.load_module(device=self.device)

    def simulate(self):
        for _ in range(self.substeps):
            wp.launch(integrate, dim=self.x.shape[0],
                      inputs=[self.x, self.v, self.f, self.inv_mass, self.dt],
                      device=self.device)

    def capture(self):
        with wp.ScopedStream(self.stream):
            wp.capture_begin(device=self.device)
            try:
                self.simulate()
            finally:
                self.graph = wp.capture_end(device=self.device)

    def step(self, forces):
        self.f_t.copy_(forces)
        with wp.ScopedStream(self.stream):
            wp.capture_launch(self.graph)
        return self.x_t


def rollout(policy, x, v, inv_mass, steps, dt=1.0 / 60.0):
    sim = WarpIntegrator(x, v, inv_mass, dt)
    sim.capture()
    states = []
    with torch.no_grad():
        for _ in range(steps):
            forces = policy(torch.cat([sim.x_t, sim.v_t], dim=-1))
            states.append(sim.step(forces).clone())
    return torch.stack(states)
