"""Vectorised camera environment: Warp renders, a torch policy acts on its own stream."""
import torch
import torch.nn as nn
import warp as wp

wp.init()

WIDTH = 96
HEIGHT = 72


@wp.kernel
def move(pos: wp.array(dtype=wp.vec3), act: wp.array2d(dtype=float), dt: float):
    e = wp.tid()
    p = pos[e]
    p = p + wp.vec3(act[e, 0], act[e, 1], 0.0) * dt
    pos[e] = wp.vec3(wp.clamp(p[0], -2.0, 2.0), wp.clamp(p[1], -2.0, 2.0), p[2])


@wp.kernel
def render(pos: wp.array(dtype=wp.vec3), image: wp.array4d(dtype=float), w: int, h: int):
    e, y, x = wp.tid()
    u = (float(x) / float(w) - 0.5) * 4.0
    v = (float(y) / float(h) - 0.5) * 4.0
    p = pos[e]
    d = wp.sqrt((u - p[0]) * (u - p[0]) + (v - p[1]) * (v - p[1]))
    image[e, 0, y, x] = wp.exp(-4.0 * d * d)
    image[e, 1, y, x] = wp.where(wp.abs(u) < 0.05, 1.0, 0.0)
    image[e, 2, y, x] = wp.where(wp.abs(v) < 0.05, 1.0, 0.0)


@wp.kernel
def reward(pos: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    e = wp.tid()
    out[e] = -wp.length(pos[e])


class CameraEnv:
    def __init__(self, envs, device="cuda:0"):
        self.envs, self.device = envs, device
        start = torch.rand(envs, 3, device=device) * 3.0 - 1.5
        torch.cuda.synchronize()
        self.pos = wp.clone(wp.from_torch(start.contiguous(), dtype=wp.vec3))
        self.image = wp.zeros((envs, 3, HEIGHT, WIDTH), dtype=float, device=device)
        self.rew = wp.zeros(envs, dtype=float, device=device)
        wp.synchronize_device(device)
        self.obs = wp.to_torch(self.image)
        self.rew_view = wp.to_torch(self.rew)

    def step(self, actions):
        act = wp.from_torch(actions)
        wp.launch(move, dim=self.envs, inputs=[self.pos, act, 0.1], device=self.device)
        wp.launch(render, dim=(self.envs, HEIGHT, WIDTH),
                  inputs=[self.pos, self.image, WIDTH, HEIGHT], device=self.device)
        wp.launch(reward, dim=self.envs, inputs=[self.pos, self.rew], device=self.device)
        return self.obs, self.rew_view


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 5, 3), nn.ELU(), nn.Conv2d(16, 32, 3, 2), nn.ELU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 2), nn.Tanh(),
        )

    def forward(self, obs):
        return self.net(obs)


class Runner:
    def __init__(self, envs):
        self.env = CameraEnv(envs)
        self.policy = Policy().cuda()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.actions = torch.zeros(envs, 2, device="cuda")
        torch.cuda.synchronize()

    @torch.no_grad()
    def rollout(self, steps):
        returns = torch.zeros(self.env.envs, device="cuda")
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(steps):
                obs, rew = self.env.step(self.actions)
                returns += rew
                self.actions.copy_(self.policy(obs))
        torch.cuda.synchronize()
        return returns.mean().item()


def main():
    torch.manual_seed(0)
    runner = Runner(512)
    for it in range(5):
        print(it, runner.rollout(50))


if __name__ == "__main__":
    main()
