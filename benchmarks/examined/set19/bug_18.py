"""Point queries against a grid: CuPy prepares the points, a Warp kernel samples the field."""
import cupy as cp
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def sample_field(
    points: wp.array(dtype=wp.vec3),
    field: wp.array3d(dtype=float),
    res: int,
    out: wp.array(dtype=float),
):
    i = wp.tid()
    p = points[i]
    x = wp.clamp(int(p[0]), 0, res - 1)
    y = wp.clamp(int(p[1]), 0, res - 1)
    z = wp.clamp(int(p[2]), 0, res - 1)
    acc = float(0.0)
    for k in range(32):
        acc = acc + field[x, y, (z + k) % res]
    out[i] = acc / 32.0


class FieldSampler:
    def __init__(self, field, batch, device="cuda:0"):
        self.device = wp.get_device(device)
        self.res = field.shape[0]
        self.batch = batch
        self.stream = wp.Stream(self.device)
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.cp_as_wp = wp.Stream(self.device, cuda_stream=self.cp_stream.ptr)
        self.field = wp.array(field, dtype=float, device=device)
        wp.synchronize_device(self.device)

    def _to_grid(self, points, transform):
        """World to grid coordinates."""
        with self.cp_stream:
            world = cp.asarray(points, dtype=cp.float32)
            grid = world @ cp.asarray(transform[:3, :3].T, dtype=cp.float32)
            grid += cp.asarray(transform[:3, 3], dtype=cp.float32)
            return cp.ascontiguousarray(grid * (self.res - 1))

    def query(self, points, transform, out):
        grid = self._to_grid(points, transform)
        view = wp.array(ptr=grid.data.ptr, shape=(grid.shape[0],), dtype=wp.vec3, device=self.device)
        self.stream.wait_stream(self.cp_as_wp)
        wp.launch(
            sample_field,
            dim=grid.shape[0],
            inputs=[view, self.field, self.res, out],
            device=self.device,
            stream=self.stream,
        )
        return out

    def query_all(self, points, transforms):
        outs = []
        for transform in transforms:
            for start in range(0, len(points), self.batch):
                chunk = points[start : start + self.batch]
                with wp.ScopedStream(self.stream):
                    out = wp.empty(len(chunk), dtype=float, device=self.device)
                outs.append(self.query(chunk, transform, out))
        wp.synchronize_stream(self.stream)
        return [o.numpy() for o in outs]


def rotation(angle):
    c, s = np.cos(angle), np.sin(angle)
    m = np.eye(4, dtype=np.float32)
    m[:2, :2] = [[c, -s], [s, c]]
    m[:3, 3] = 0.5 - m[:3, :3] @ np.full(3, 0.5, dtype=np.float32)
    return m


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    sampler = FieldSampler(rng.standard_normal((256, 256, 256)).astype(np.float32), batch=1 << 20)
    cloud = rng.uniform(0, 1, (1 << 22, 3)).astype(np.float32)
    values = sampler.query_all(cloud, [rotation(a) for a in np.linspace(0, 1, 8)])
    print(np.mean([v.mean() for v in values]))
