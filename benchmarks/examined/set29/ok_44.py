"""Batched fly simulation: the physics step is a captured graph; a reset writes
the key frame into the arrays that the graph uses."""
import numpy as np
import warp as wp


@wp.kernel
def physics(qpos: wp.array(dtype=float), qvel: wp.array(dtype=float), ctrl: wp.array(dtype=float), dt: float):
    i = wp.tid()
    v = qvel[i] + (ctrl[i] - 4.0 * qpos[i] - 0.2 * qvel[i]) * dt
    qvel[i] = v
    qpos[i] = qpos[i] + v * dt


@wp.kernel
def reset_worlds(mask: wp.array(dtype=wp.int32), key_qpos: wp.array(dtype=float), nq: int,
                 qpos: wp.array(dtype=float), qvel: wp.array(dtype=float)):
    i = wp.tid()
    if mask[i // nq] != 0:
        qpos[i] = key_qpos[i % nq]
        qvel[i] = 0.0


class GPUSimulation:
    def __init__(self, n_worlds=512, nq=48, dt=1e-3, substeps=10, device="cuda:0"):
        self.device = wp.get_device(device)
        self.n_worlds, self.nq, self.n = n_worlds, nq, n_worlds * nq
        self.qpos = wp.zeros(self.n, dtype=float, device=self.device)
        self.qvel = wp.zeros(self.n, dtype=float, device=self.device)
        self.ctrl = wp.zeros(self.n, dtype=float, device=self.device)
        self.key_qpos = wp.array(np.linspace(-0.5, 0.5, nq), dtype=float, device=self.device)
        self.mask = wp.zeros(n_worlds, dtype=wp.int32, device=self.device)
        self.h_ctrl = wp.zeros(self.n, dtype=float, device="cpu", pinned=True)
        self.h_mask = wp.zeros(n_worlds, dtype=wp.int32, device="cpu", pinned=True)
        self.h_qpos = wp.zeros(self.n, dtype=float, device="cpu", pinned=True)
        self.stream = wp.Stream(self.device)
        self.uploaded = wp.Event(self.device)
        wp.load_module(device=self.device)
        wp.synchronize_device(self.device)
        with wp.ScopedCapture(stream=self.stream) as capture:
            for _ in range(substeps):
                wp.launch(physics, dim=self.n, inputs=[self.qpos, self.qvel, self.ctrl, dt], stream=self.stream)
        self.graph = capture.graph
        self.stream.record_event(self.uploaded)

    def reset(self, worlds):
        wp.synchronize_event(self.uploaded)
        host = self.h_mask.numpy()
        host[:] = 0
        host[worlds] = 1
        wp.copy(self.mask, self.h_mask, stream=self.stream)
        self.stream.record_event(self.uploaded)
        wp.launch(reset_worlds, dim=self.n, inputs=[self.mask, self.key_qpos, self.nq, self.qpos, self.qvel],
                  stream=self.stream)

    def step(self, ctrl):
        wp.synchronize_event(self.uploaded)
        self.h_ctrl.numpy()[:] = ctrl
        wp.copy(self.ctrl, self.h_ctrl, stream=self.stream)
        self.stream.record_event(self.uploaded)
        wp.capture_launch(self.graph, stream=self.stream)

    def observe(self):
        wp.copy(self.h_qpos, self.qpos, stream=self.stream)
        wp.synchronize_stream(self.stream)
        return self.h_qpos.numpy().reshape(self.n_worlds, self.nq).copy()


if __name__ == "__main__":
    wp.init()
    sim = GPUSimulation()
    rng = np.random.default_rng(0)
    sim.reset(np.arange(sim.n_worlds))
    for k in range(200):
        obs = sim.observe()
        fallen = np.flatnonzero(np.abs(obs).max(axis=1) > 2.0)
        if fallen.size:
            sim.reset(fallen)
        sim.step(rng.normal(size=sim.n).astype(np.float32) - obs.ravel())
    print(sim.observe().std())
