"""Warp ray-cast camera feeding a PyTorch policy."""
import torch
import torch.nn as nn
import warp as wp


@wp.kernel
def shade(poses: wp.array(dtype=wp.vec3), light: wp.vec3,
          image: wp.array(dtype=wp.float32, ndim=3)):
    env, y, x = wp.tid()
    h = float(image.shape[1])
    w = float(image.shape[2])
    d = wp.normalize(wp.vec3(float(x) / w - 0.5, float(y) / h - 0.5, 1.0))
    acc = float(0.0)
    for k in range(64):
        p = poses[env] + d * (float(k) * 0.05)
        acc += wp.exp(-wp.length(p - light))
    image[env, y, x] = acc / 64.0


@wp.kernel
def advance(poses: wp.array(dtype=wp.vec3), actions: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    poses[i] = poses[i] + actions[i] * dt


class CameraData:
    def __init__(self, num_envs, height, width, device):
        self.depth = wp.zeros((num_envs, height, width), dtype=wp.float32, device=device)
        self.depth_torch = wp.to_torch(self.depth)


class Scene:
    def __init__(self, num_envs, device):
        self.device = device
        self.num_envs = num_envs
        self.poses = wp.zeros(num_envs, dtype=wp.vec3, device=device)
        self.camera = CameraData(num_envs, 64, 64, device)
        wp.synchronize_device(device)

    def render(self):
        img = self.camera.depth
        wp.launch(shade, dim=img.shape, inputs=[self.poses, wp.vec3(0.0, 0.0, 2.0), img],
                  device=self.device)
        return self.camera.depth_torch

    def apply(self, actions):
        wp.launch(advance, dim=self.num_envs,
                  inputs=[self.poses, wp.array(actions.numpy(), dtype=wp.vec3,
                                               device=self.device), 0.02],
                  device=self.device)


class Policy:
    def __init__(self, device):
        self.stream = torch.cuda.Stream(device)
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=4), nn.ReLU(), nn.Flatten(),
            nn.LazyLinear(3)).to(device)
        self.net(torch.zeros(1, 1, 64, 64, device=device))
        torch.cuda.synchronize(device)

    @torch.no_grad()
    def act(self, obs):
        with torch.cuda.stream(self.stream):
            actions = torch.tanh(self.net(obs.unsqueeze(1)))
            return actions.cpu()


def main():
    wp.init()
    device = "cuda:0"
    scene = Scene(256, device)
    policy = Policy(device)
    for _ in range(50):
        obs = scene.render()
        scene.apply(policy.act(obs))
    print(scene.poses.numpy().mean(axis=0))


if __name__ == "__main__":
    main()
