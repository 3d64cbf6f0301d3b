"""Warp ray-marched depth camera feeding a torch policy."""
import torch
import torch.nn as nn
import warp as wp

wp.init()


@wp.kernel
def march(origins: wp.array(dtype=wp.vec3), radius: float, width: int, height: int,
          depth: wp.array(dtype=float, ndim=3)):
    env, y, x = wp.tid()
    o = origins[env]
    u = (float(x) + 0.5) / float(width) - 0.5
    v = (float(y) + 0.5) / float(height) - 0.5
    d = wp.normalize(wp.vec3(u, v, 1.0))
    t = float(0.0)
    for _ in range(128):
        p = o + d * t
        dist = wp.length(p) - radius
        t = t + dist * 0.5
    depth[env, y, x] = t


class RenderData:
    def __init__(self, num_envs, height, width, device):
        self.depth_torch = torch.zeros(num_envs, height, width, device=device)
        self.depth = wp.from_torch(self.depth_torch)


class DepthCamera:
    def __init__(self, num_envs, height, width, device="cuda:0"):
        self.shape = (num_envs, height, width)
        self.device = device
        self.data = RenderData(num_envs, height, width, device)
        self.wp_stream = wp.Stream(device)
        self.frame = 0

    def update_camera(self, positions):
        self.origins = wp.array(positions, dtype=wp.vec3, device=self.device)

    def render(self, radius):
        n, h, w = self.shape
        with wp.ScopedStream(self.wp_stream):
            wp.launch(march, dim=(n, h, w), device=self.device,
                      inputs=[self.origins, radius, w, h, self.data.depth])
        self.frame += 1
        return self.data.depth_torch


class Policy(nn.Module):
    def __init__(self, height, width):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 16, 5, stride=4), nn.ReLU(),
                                 nn.Conv2d(16, 32, 5, stride=4), nn.ReLU(), nn.Flatten())
        with torch.no_grad():
            k = self.enc(torch.zeros(1, 1, height, width)).shape[1]
        self.head = nn.Linear(k, 8)

    def forward(self, depth):
        return self.head(self.enc(depth.unsqueeze(1)))


class Runner:
    def __init__(self, num_envs=256, height=128, width=128):
        self.camera = DepthCamera(num_envs, height, width)
        positions = torch.randn(num_envs, 3)
        positions[:, 2] -= 4.0
        self.camera.update_camera(positions.numpy())
        self.policy = Policy(height, width).cuda()
        self.policy_stream = torch.cuda.Stream()
        wp.synchronize()
        torch.cuda.synchronize()

    @torch.no_grad()
    def step(self, radius):
        depth = self.camera.render(radius)
        with torch.cuda.stream(self.policy_stream):
            obs = depth.clamp(0.0, 10.0)
            return self.policy(obs / 10.0).argmax(dim=-1)


def main():
    runner = Runner()
    actions = [runner.step(0.5 + 0.1 * i) for i in range(20)]
    torch.cuda.synchronize()
    print(torch.stack(actions).float().mean().item())


if __name__ == "__main__":
    main()
