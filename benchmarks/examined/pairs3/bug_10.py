"""Articulation asset: stages joint properties of all environments on the host."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def scale_limits(limits: wp.array(dtype=wp.float32), env_ids: wp.array(dtype=wp.int32),
                 factor: float, dofs: int):
    i = wp.tid()
    base = env_ids[i] * dofs
    for j in range(dofs):
        limits[base + j] = limits[base + j] * factor


class PropertyView:
    """Host-side property interface of the physics engine."""

    def __init__(self, n_env, dofs):
        self.values = np.zeros((n_env, dofs), np.float32)

    def set_limits(self, values, env_ids):
        self.values[env_ids] = values.reshape(self.values.shape)[env_ids]


class Articulation:
    def __init__(self, n_env, dofs, device):
        self.device, self.dofs = device, dofs
        self.limits = wp.full(n_env * dofs, value=2.0, dtype=wp.float32, device=device)
        self.view = PropertyView(n_env, dofs)
        self._cpu_limits = wp.zeros(n_env * dofs, dtype=wp.float32, device="cpu", pinned=True)

    def randomize(self, env_ids, factor):
        ids = wp.array(env_ids, dtype=wp.int32, device=self.device)
        wp.launch(scale_limits, dim=len(env_ids), inputs=[self.limits, ids, factor, self.dofs],
                  device=self.device)
        self._write_limits(env_ids)

    def _write_limits(self, env_ids):
        wp.copy(self._cpu_limits, self.limits)
        self.view.set_limits(self._cpu_limits.numpy(), env_ids)


def main(n_env=4096, dofs=12):
    robot = Articulation(n_env, dofs, "cuda:0")
    rng = np.random.default_rng(7)
    for episode in range(100):
        ids = rng.choice(n_env, size=n_env // 4, replace=False).astype(np.int32)
        robot.randomize(ids, float(rng.uniform(0.9, 1.1)))
    print(robot.view.values.mean())


if __name__ == "__main__":
    main()
