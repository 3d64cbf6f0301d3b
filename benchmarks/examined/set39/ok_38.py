"""Particle advection in Warp with time-varying wind fields from the host."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def advect(
    pos: wp.array(dtype=wp.vec2),
    wind: wp.array2d(dtype=wp.vec2),
    dt: wp.float32,
):
    i = wp.tid()
    p = pos[i]
    nx = wind.shape[1]
    ny = wind.shape[0]
    ix = wp.clamp(int(p[0] * float(nx)), 0, nx - 1)
    iy = wp.clamp(int(p[1] * float(ny)), 0, ny - 1)
    q = p + wind[iy, ix] * dt
    pos[i] = wp.vec2(wp.clamp(q[0], 0.0, 1.0), wp.clamp(q[1], 0.0, 1.0))


class FieldUploader:
    def __init__(self, shape, device):
        self.device = wp.get_device(device)
        self.pinned = [
            wp.empty(shape, dtype=wp.vec2, device="cpu", pinned=True) for _ in range(2)
        ]
        self.views = [p.numpy() for p in self.pinned]
        self.done = [None, None]
        self.turn = 0

    def send(self, field, dest):
        k = self.turn
        self.turn = 1 - k
        if self.done[k] is not None:
            wp.synchronize_event(self.done[k])
        self.views[k][...] = field
        wp.copy(dest, self.pinned[k])
        self.done[k] = self.device.stream.record_event()


def wind_at(t, shape):
    y, x = np.mgrid[0:shape[0], 0:shape[1]] / shape[0]
    u = np.sin(6.28 * y + t)
    v = np.cos(6.28 * x - t)
    return np.stack([u, v], axis=-1).astype(np.float32)


def main(particles=1 << 20, steps=60, shape=(512, 512)):
    device = "cuda:0"
    rng = np.random.default_rng(4)
    start = rng.random((particles, 2), dtype=np.float32)
    pos = wp.array(start, dtype=wp.vec2, device=device)
    wind = wp.zeros(shape, dtype=wp.vec2, device=device)
    uploader = FieldUploader(shape, device)
    for k in range(steps):
        uploader.send(wind_at(0.05 * k, shape), wind)
        wp.launch(advect, dim=particles, inputs=[pos, wind, 0.01], device=device)
    final = pos.numpy()
    print("inside", bool(((final >= 0) & (final <= 1)).all()), "mean", final.mean(axis=0))


if __name__ == "__main__":
    main()
