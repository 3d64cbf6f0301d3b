"""Batched pendulum backend in Warp with host-side state caches."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(
    q: wp.array(dtype=float),
    v: wp.array(dtype=float),
    ctrl: wp.array(dtype=float),
    dt: float,
):
    i = wp.tid()
    acc = -9.81 * wp.sin(q[i]) + ctrl[i]
    v[i] = v[i] + dt * acc
    q[i] = q[i] + dt * v[i]


@wp.kernel
def reset_rows(
    mask: wp.array(dtype=wp.int32),
    q: wp.array(dtype=float),
    v: wp.array(dtype=float),
):
    i = wp.tid()
    if mask[i] != 0:
        q[i] = 0.0
        v[i] = 0.0


class PendulumBackend:
    def __init__(self, worlds, dt=0.002, substeps=8, device="cuda:0"):
        self.worlds = worlds
        self.dt = dt
        self.substeps = substeps
        self.device = device
        self.q = wp.zeros(worlds, dtype=float, device=device)
        self.v = wp.zeros(worlds, dtype=float, device=device)
        self.ctrl = wp.zeros(worlds, dtype=float, device=device)
        self.mask = wp.zeros(worlds, dtype=wp.int32, device=device)
        self._q_host = wp.zeros(worlds, dtype=float, device="cpu", pinned=True)
        self._v_host = wp.zeros(worlds, dtype=float, device="cpu", pinned=True)
        self.qpos = self._q_host.numpy()
        self.qvel = self._v_host.numpy()

    def _refresh(self):
        wp.copy(self._q_host, self.q)
        wp.copy(self._v_host, self.v)

    def step(self, action):
        self.ctrl.assign(action)
        for _ in range(self.substeps):
            wp.launch(
                integrate,
                dim=self.worlds,
                inputs=[self.q, self.v, self.ctrl, self.dt],
                device=self.device,
            )
        self._refresh()

    def reset(self, rows):
        flags = np.zeros(self.worlds, dtype=np.int32)
        flags[rows] = 1
        self.mask.assign(flags)
        wp.launch(
            reset_rows,
            dim=self.worlds,
            inputs=[self.mask, self.q, self.v],
            device=self.device,
        )
        self._refresh()


class BalanceEnv:
    def __init__(self, worlds=4096):
        self.backend = PendulumBackend(worlds)

    def step(self, action):
        self.backend.step(action)
        obs = np.stack([np.sin(self.backend.qpos), self.backend.qvel], axis=1)
        done = np.abs(self.backend.qpos) > 3.0
        if done.any():
            self.backend.reset(np.flatnonzero(done))
        return obs, done


if __name__ == "__main__":
    env = BalanceEnv()
    rng = np.random.default_rng(0)
    for _ in range(100):
        env.step(rng.standard_normal(4096).astype(np.float32))
