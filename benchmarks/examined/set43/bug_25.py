"""Particle neighbour counting with a cached count readback (NVIDIA Warp)."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def advance(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), dt: float, box: float):
    i = wp.tid()
    p = pos[i] + vel[i] * dt
    v = vel[i]
    if wp.abs(p[0]) > box:
        v = wp.vec3(-v[0], v[1], v[2])
    if wp.abs(p[1]) > box:
        v = wp.vec3(v[0], -v[1], v[2])
    if wp.abs(p[2]) > box:
        v = wp.vec3(v[0], v[1], -v[2])
    pos[i] = p
    vel[i] = v


@wp.kernel
def count_pairs(grid: wp.uint64, pos: wp.array(dtype=wp.vec3), radius: float, total: wp.array(dtype=int)):
    i = wp.tid()
    p = pos[i]
    query = wp.hash_grid_query(grid, p, radius)
    j = int(0)
    n = int(0)
    while wp.hash_grid_query_next(query, j):
        if j > i:
            if wp.length(p - pos[j]) < radius:
                n += 1
    wp.atomic_add(total, 0, n)


class CountReadback:
    """Transfers a single device integer to page-locked memory."""

    def __init__(self, device):
        self.device = wp.get_device(device)
        self.host = wp.zeros(1, dtype=int, device="cpu", pinned=True)
        self.event = wp.Event(self.device)
        self.scheduled = False

    def schedule(self, src):
        stream = wp.get_stream(self.device)
        stream.record_event(self.event)
        wp.copy(self.host, src, stream=stream)
        self.scheduled = True

    def result(self):
        if not self.scheduled:
            raise RuntimeError("nothing was scheduled")
        wp.synchronize_event(self.event)
        self.scheduled = False
        return int(self.host.numpy()[0])


class Cloud:
    def __init__(self, n, box=4.0, radius=0.12, device="cuda:0"):
        rng = np.random.default_rng(2)
        self.n, self.box, self.radius = n, box, radius
        self.device = device
        self.pos = wp.array(rng.uniform(-box, box, size=(n, 3)), dtype=wp.vec3, device=device)
        self.vel = wp.array(rng.normal(size=(n, 3)), dtype=wp.vec3, device=device)
        self.grid = wp.HashGrid(64, 64, 64, device=device)
        self.total = wp.zeros(1, dtype=int, device=device)
        self.readback = CountReadback(device)

    def step(self, dt):
        wp.launch(advance, dim=self.n, inputs=[self.pos, self.vel, dt, self.box], device=self.device)

    def begin_count(self):
        self.grid.build(self.pos, self.radius)
        self.total.zero_()
        wp.launch(count_pairs, dim=self.n,
                  inputs=[self.grid.id, self.pos, self.radius, self.total], device=self.device)
        self.readback.schedule(self.total)

    def pairs(self):
        return self.readback.result()


def main():
    cloud = Cloud(60000)
    series = []
    for frame in range(60):
        for _ in range(4):
            cloud.step(1.0 / 240.0)
        cloud.begin_count()
        series.append(cloud.pairs())
    a = np.asarray(series)
    print("pairs min/mean/max", a.min(), a.mean(), a.max())


if __name__ == "__main__":
    main()
