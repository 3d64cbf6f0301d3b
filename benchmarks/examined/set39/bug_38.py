"""Spring chain in Warp: parameters are uploaded from numpy each episode."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(
    x: wp.array(dtype=wp.float32),
    v: wp.array(dtype=wp.float32),
    stiffness: wp.array(dtype=wp.float32),
    damping: wp.array(dtype=wp.float32),
    dt: wp.float32,
):
    i = wp.tid()
    force = -stiffness[i] * x[i] - damping[i] * v[i]
    v[i] = v[i] + dt * force
    x[i] = x[i] + dt * v[i]


class Staging:
    """Page-locked scratch array for uploads."""

    def __init__(self, count):
        self.block = wp.empty(count, dtype=wp.float32, device="cpu", pinned=True)
        self.view = self.block.numpy()

    def upload(self, values, dest):
        self.view[: len(values)] = values
        wp.copy(dest, self.block, count=len(values))


class Chain:
    def __init__(self, count, device="cuda:0"):
        self.count = count
        self.device = device
        make = lambda: wp.zeros(count, dtype=wp.float32, device=device)
        self.x, self.v = make(), make()
        self.stiffness, self.damping = make(), make()
        self.staging = Staging(count)
        wp.synchronize_device(device)

    def reset(self, params):
        self.staging.upload(params["x"], self.x)
        self.staging.upload(params["v"], self.v)
        self.staging.upload(params["stiffness"], self.stiffness)
        self.staging.upload(params["damping"], self.damping)

    def run(self, steps, dt=1.0e-3):
        for _ in range(steps):
            wp.launch(
                integrate,
                dim=self.count,
                inputs=[self.x, self.v, self.stiffness, self.damping, dt],
                device=self.device,
            )

    def energy(self):
        wp.synchronize_device(self.device)
        x, v, k = self.x.numpy(), self.v.numpy(), self.stiffness.numpy()
        return float((0.5 * v * v + 0.5 * k * x * x).sum())


def main(count=1 << 22, episodes=4, steps=50):
    rng = np.random.default_rng(0)
    chain = Chain(count)
    for e in range(episodes):
        params = {
            "x": rng.random(count, dtype=np.float32),
            "v": np.zeros(count, np.float32),
            "stiffness": np.full(count, 40.0 + e, np.float32),
            "damping": np.full(count, 0.1, np.float32),
        }
        chain.reset(params)
        chain.run(steps)
        print("episode", e, "energy", chain.energy())


if __name__ == "__main__":
    main()
