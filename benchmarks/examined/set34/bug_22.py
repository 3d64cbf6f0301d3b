"""Batched scene stepping with a Warp ray caster running beside the integrator."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    pos[i] = pos[i] + vel[i] * dt


@wp.kernel
def refit_bounds(
    pos: wp.array(dtype=wp.vec3),
    half: wp.array(dtype=wp.vec3),
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    lower[i] = pos[i] - half[i]
    upper[i] = pos[i] + half[i]


@wp.kernel
def cast_rays(
    origin: wp.vec3,
    rays: wp.array(dtype=wp.vec3),
    lower: wp.array(dtype=wp.vec3),
    upper: wp.array(dtype=wp.vec3),
    count: int,
    depth: wp.array(dtype=float),
):
    p = wp.tid()
    best = float(1.0e6)
    for b in range(count):
        t0 = wp.cw_div(lower[b] - origin, rays[p])
        t1 = wp.cw_div(upper[b] - origin, rays[p])
        near = wp.max(wp.max(wp.min(t0[0], t1[0]), wp.min(t0[1], t1[1])), wp.min(t0[2], t1[2]))
        far = wp.min(wp.min(wp.max(t0[0], t1[0]), wp.max(t0[1], t1[1])), wp.max(t0[2], t1[2]))
        if near > 0.0 and near <= far and near < best:
            best = near
    depth[p] = best


class RenderedScene:
    def __init__(self, nbody: int, rays: np.ndarray, device: str = "cuda:0"):
        self.device = wp.get_device(device)
        self.n = nbody
        self.pos = wp.zeros(nbody, dtype=wp.vec3, device=self.device)
        self.vel = wp.full(nbody, wp.vec3(0.1, 0.0, 0.0), dtype=wp.vec3, device=self.device)
        self.half = wp.full(nbody, wp.vec3(0.1, 0.1, 0.1), dtype=wp.vec3, device=self.device)
        self.lower = wp.zeros_like(self.pos)
        self.upper = wp.zeros_like(self.pos)
        self.rays = wp.array(rays, dtype=wp.vec3, device=self.device)
        self.depth = wp.zeros(len(rays), dtype=float, device=self.device)
        wp.synchronize_device(self.device)
        self.sim_stream = wp.Stream(self.device)
        self.render_stream = wp.Stream(self.device)
        self.pose_ready = wp.Event(self.device)
        self.frame_done = wp.Event(self.device)
        self.render_stream.record_event(self.frame_done)

    def step(self, dt: float) -> None:
        self.sim_stream.wait_event(self.frame_done)
        wp.launch(integrate, dim=self.n, inputs=[self.pos, self.vel, dt], stream=self.sim_stream)
        self.sim_stream.record_event(self.pose_ready)

    def refit(self) -> None:
        wp.launch(
            refit_bounds,
            dim=self.n,
            inputs=[self.pos, self.half, self.lower, self.upper],
            stream=self.sim_stream,
        )

    def render(self) -> wp.array:
        self.render_stream.wait_event(self.pose_ready)
        wp.launch(
            cast_rays,
            dim=self.rays.shape[0],
            inputs=[wp.vec3(0.0, 0.0, 5.0), self.rays, self.lower, self.upper, self.n, self.depth],
            stream=self.render_stream,
        )
        self.render_stream.record_event(self.frame_done)
        return self.depth


def main(frames: int = 200) -> None:
    rays = np.random.default_rng(0).normal(size=(640 * 480, 3)).astype(np.float32)
    scene = RenderedScene(512, rays)
    total = 0.0
    for _ in range(frames):
        scene.step(1.0 / 60.0)
        scene.refit()
        depth = scene.render()
        wp.synchronize_stream(scene.render_stream)
        total += float(depth.numpy().min())
    print(total / frames)


if __name__ == "__main__":
    main()
