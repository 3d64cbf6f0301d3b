"""Granular simulator: Warp collisions inside a PyTorch rollout stream."""
import torch
import warp as wp
from torch import nn


@wp.kernel
def bounce(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), floor: float, keep: float):
    i = wp.tid()
    p = pos[i]
    if p[2] < floor:
        v = vel[i]
        vel[i] = wp.vec3(v[0], v[1], -keep * v[2])
        pos[i] = wp.vec3(p[0], p[1], floor)


class CollisionSolver:
    def __init__(self, device="cuda:0"):
        self.device = wp.get_device(device)

    def resolve(self, pos, vel):
        wp.launch(
            bounce, dim=pos.shape[0], device=self.device,
            inputs=[wp.from_torch(pos, dtype=wp.vec3), wp.from_torch(vel, dtype=wp.vec3), 0.0, 0.6],
        )


class GrainBox:
    def __init__(self, n):
        self.pos = torch.rand(n, 3, device="cuda")
        self.vel = torch.zeros(n, 3, device="cuda")
        self.gravity = torch.tensor([0.0, 0.0, -9.8], device="cuda")
        self.solver = CollisionSolver()

    def step(self, push, dt=0.004):
        self.vel.add_(self.gravity + push, alpha=dt)
        self.pos.add_(self.vel, alpha=dt)
        self.solver.resolve(self.pos, self.vel)
        return self.pos[:, 2].mean()


class RolloutWorker:
    def __init__(self, n):
        self.box = GrainBox(n)
        self.net = nn.Linear(6, 3).cuda().requires_grad_(False)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def collect(self, steps):
        heights = []
        with torch.cuda.stream(self.stream):
            for _ in range(steps):
                push = self.net(torch.cat([self.box.pos, self.box.vel], 1))
                heights.append(self.box.step(push))
            return torch.stack(heights).cpu()


def main():
    wp.init()
    worker = RolloutWorker(1 << 19)
    for _ in range(5):
        print(worker.collect(100).mean().item())


if __name__ == "__main__":
    main()
