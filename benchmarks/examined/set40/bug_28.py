"""Several independent point clouds relaxed on their own Warp streams."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def relax(x: wp.array(dtype=wp.vec3), target: wp.array(dtype=wp.vec3), rate: float):
    i = wp.tid()
    d = target[i] - x[i]
    for _ in range(64):
        d = d * 0.999 + (target[i] - x[i]) * 0.001
    x[i] = x[i] + d * rate


@wp.kernel
def residual(x: wp.array(dtype=wp.vec3), target: wp.array(dtype=wp.vec3),
             out: wp.array(dtype=float), slot: int):
    i = wp.tid()
    wp.atomic_add(out, slot, wp.length(target[i] - x[i]))


@wp.kernel
def combine(parts: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(total, 0, parts[i])


class StreamGroup:
    """Round-robin set of streams; entering a lane orders it after the caller."""

    def __init__(self, device, count):
        self.device = device
        self.lanes = [wp.Stream(device) for _ in range(count)]

    def __len__(self):
        return len(self.lanes)

    def lane(self, i):
        return wp.ScopedStream(self.lanes[i % len(self.lanes)])


class Cloud:
    def __init__(self, n, device, seed):
        rng = np.random.default_rng(seed)
        self.n = n
        self.x = wp.array(rng.random((n, 3), dtype=np.float32), dtype=wp.vec3, device=device)
        goal = rng.random((n, 3), dtype=np.float32) * 2.0
        self.target = wp.array(goal, dtype=wp.vec3, device=device)


class Solver:
    def __init__(self, clouds, device):
        self.clouds = clouds
        self.device = device
        self.group = StreamGroup(device, len(clouds))
        self.parts = wp.zeros(len(clouds), dtype=float, device=device)
        self.total = wp.zeros(1, dtype=float, device=device)
        wp.synchronize_device(device)

    def step(self, rate):
        self.parts.zero_()
        self.total.zero_()
        for i, cloud in enumerate(self.clouds):
            with self.group.lane(i):
                wp.launch(relax, dim=cloud.n, inputs=[cloud.x, cloud.target, rate], device=self.device)
                wp.launch(residual, dim=cloud.n,
                          inputs=[cloud.x, cloud.target, self.parts, i], device=self.device)
        wp.launch(combine, dim=len(self.clouds), inputs=[self.parts, self.total], device=self.device)

    def error(self):
        return float(self.total.numpy()[0])


def main(clouds=6, n=300_000, steps=60):
    device = wp.get_device("cuda:0")
    solver = Solver([Cloud(n, device, s) for s in range(clouds)], device)
    history = []
    for k in range(steps):
        solver.step(rate=0.15)
        if k % 10 == 9:
            history.append(solver.error() / (clouds * n))
    for k, e in enumerate(history):
        print(f"block {k}: mean distance {e:.6f}")


if __name__ == "__main__":
    main()
