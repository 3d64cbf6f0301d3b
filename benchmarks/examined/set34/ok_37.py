"""Particle stepping and depth splatting on Warp streams."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def advance(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] + wp.vec3(0.0, 0.0, -9.81) * dt
    p = pos[i] + v * dt
    if p[2] < 0.0:
        p = wp.vec3(p[0], p[1], -p[2])
        v = wp.vec3(v[0], v[1], -0.8 * v[2])
    pos[i] = p
    vel[i] = v


@wp.kernel
def clear_depth(depth: wp.array(dtype=float)):
    depth[wp.tid()] = 1.0e6


@wp.kernel
def splat(pos: wp.array(dtype=wp.vec3), width: int, depth: wp.array(dtype=float)):
    i = wp.tid()
    p = pos[i]
    u = int((p[0] + 2.0) * 0.25 * float(width))
    v = int((p[1] + 2.0) * 0.25 * float(width))
    if u >= 0 and u < width and v >= 0 and v < width:
        wp.atomic_min(depth, v * width + u, 5.0 - p[2])


class Splatter:
    def __init__(self, width: int, device):
        self.device = device
        self.width = width
        self.stream = wp.Stream(device)
        self.depth = wp.zeros(width * width, dtype=float, device=device)
        self.host = wp.zeros(width * width, dtype=float, device="cpu", pinned=True)

    def draw(self, pos: wp.array) -> None:
        with wp.ScopedStream(self.stream):
            wp.launch(clear_depth, dim=self.depth.shape[0], inputs=[self.depth], device=self.device)
            wp.launch(
                splat, dim=pos.shape[0], inputs=[pos, self.width, self.depth], device=self.device
            )
            wp.copy(self.host, self.depth)

    def image(self) -> np.ndarray:
        wp.synchronize_stream(self.stream)
        return self.host.numpy().reshape(self.width, self.width).copy()


class World:
    def __init__(self, count: int, width: int, device: str = "cuda:0"):
        self.device = wp.get_device(device)
        rng = np.random.default_rng(0)
        start = rng.uniform(-1.0, 1.0, size=(count, 3)).astype(np.float32)
        start[:, 2] += 2.0
        self.pos = wp.array(start, dtype=wp.vec3, device=self.device)
        self.vel = wp.zeros(count, dtype=wp.vec3, device=self.device)
        self.splatter = Splatter(width, self.device)
        self.frames = []

    def step(self, substeps: int, dt: float) -> None:
        wp.get_stream(self.device).wait_stream(self.splatter.stream)
        for _ in range(substeps):
            wp.launch(advance, dim=self.pos.shape[0], inputs=[self.pos, self.vel, dt], device=self.device)

    def render(self, keep: bool) -> None:
        self.splatter.draw(self.pos)
        if keep:
            self.frames.append(self.splatter.image())


def main(frames: int = 300) -> None:
    device = "cuda:0"
    with wp.ScopedDevice(device):
        world = World(1 << 18, 512, device)
        for k in range(frames):
            world.step(4, 1.0 / 240.0)
            world.render(keep=k % 30 == 0)
        print(len(world.frames), float(np.mean([f.min() for f in world.frames])))


if __name__ == "__main__":
    main()
