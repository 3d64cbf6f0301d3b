"""Batched camera observations: a Warp renderer feeding an observation buffer."""
import numpy as np
import warp as wp


@wp.kernel
def shade_kernel(depth: wp.array3d(dtype=float), t: float, rgb: wp.array3d(dtype=float)):
    env, y, x = wp.tid()
    v = depth[env, y, x]
    for i in range(64):
        v = wp.sin(v + t * 0.01) * 0.5 + 0.5
    rgb[env, y, x] = v


@wp.kernel
def resize_kernel(rgb: wp.array3d(dtype=float), factor: int, obs: wp.array3d(dtype=float)):
    env, y, x = wp.tid()
    total = float(0.0)
    for dy in range(factor):
        for dx in range(factor):
            total = total + rgb[env, y * factor + dy, x * factor + dx]
    obs[env, y, x] = total / float(factor * factor)


class Renderer:
    def __init__(self, envs, height, width, device):
        self.device = device
        self.shape = (envs, height, width)
        self.stream = wp.Stream(device)
        depth = np.random.default_rng(0).random(self.shape, dtype=np.float32)
        self.depth = wp.array(depth, dtype=float, device=device)
        self.rgb = wp.zeros(self.shape, dtype=float, device=device)
        wp.synchronize_device(device)

    def render(self, t):
        wp.launch(shade_kernel, dim=self.shape, inputs=[self.depth, t],
                  outputs=[self.rgb], device=self.device, stream=self.stream)

    def map(self):
        return self.rgb


class ObservationManager:
    def __init__(self, renderer, factor):
        self.renderer = renderer
        self.factor = factor
        envs, height, width = renderer.shape
        self.shape = (envs, height // factor, width // factor)
        self.stream = wp.Stream(renderer.device)
        self.obs = wp.zeros(self.shape, dtype=float, device=renderer.device)
        wp.synchronize_device(renderer.device)

    def observe(self):
        rgb = self.renderer.map()
        wp.launch(resize_kernel, dim=self.shape, inputs=[rgb, self.factor],
                  outputs=[self.obs], device=self.renderer.device, stream=self.stream)
        wp.synchronize_stream(self.stream)
        return self.obs.numpy()


def main():
    wp.init()
    renderer = Renderer(64, 240, 320, "cuda:0")
    manager = ObservationManager(renderer, 4)
    means = []
    for step in range(20):
        renderer.render(float(step))
        means.append(float(manager.observe().mean()))
    print(means)


if __name__ == "__main__":
    main()
