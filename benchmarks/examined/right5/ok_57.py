import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), force: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] + force[i] * dt
    p = pos[i] + v * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], 0.0, p[2])
        v = wp.vec3(v[0], -0.5 * v[1], v[2])
    vel[i] = v
    pos[i] = p


class ParticleSim:
    def __init__(self, n: int, device: str = "cuda:0"):
        self.pos = torch.rand(n, 3, device=device) + torch.tensor([0.0, 1.0, 0.0], device=device)
        self.vel = torch.zeros(n, 3, device=device)
        self.force = torch.zeros(n, 3, device=device)
        self.policy = torch.nn.Linear(6, 3).to(device)
        self.stream = torch.cuda.Stream(device)
        self.wp_stream = wp.stream_from_torch(self.stream)
        self.wp_pos = wp.from_torch(self.pos, dtype=wp.vec3)
        self.wp_vel = wp.from_torch(self.vel, dtype=wp.vec3)
        self.wp_force = wp.from_torch(self.force, dtype=wp.vec3)
        self.stream.wait_stream(torch.cuda.current_stream())

    def rollout(self, steps: int, dt: float) -> torch.Tensor:
        trace = torch.empty(steps, device=self.pos.device)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), wp.ScopedStream(self.wp_stream, sync_enter=False):
            for t in range(steps):
                self.force.copy_(self.policy(torch.cat([self.pos, self.vel], dim=1)))
                self.force[:, 1] -= 9.81
                wp.launch(integrate, dim=self.pos.shape[0],
                          inputs=[self.wp_pos, self.wp_vel, self.wp_force, dt])
                trace[t].copy_(self.pos[:, 1].mean())
        torch.cuda.current_stream().wait_stream(self.stream)
        return trace


@torch.no_grad()
def main():
    sim = ParticleSim(100_000)
    for _ in range(3):
        print(sim.rollout(100, 1 / 240)[-1].item())


if __name__ == "__main__":
    main()
