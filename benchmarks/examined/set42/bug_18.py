"""Graph-captured Warp physics driven by host controls."""
import numpy as np
import warp as wp


@wp.kernel
def apply_controls(ctrl: wp.array(dtype=wp.float32, ndim=2),
                   qvel: wp.array(dtype=wp.float32, ndim=2), dt: float):
    env, joint = wp.tid()
    qvel[env, joint] = 0.99 * qvel[env, joint] + ctrl[env, joint] * dt


@wp.kernel
def integrate(qpos: wp.array(dtype=wp.float32, ndim=2),
              qvel: wp.array(dtype=wp.float32, ndim=2), dt: float):
    env, joint = wp.tid()
    qpos[env, joint] = qpos[env, joint] + qvel[env, joint] * dt


class SimData:
    def __init__(self, num_envs, joints, device):
        shape = (num_envs, joints)
        self.shape = shape
        self.qpos = wp.zeros(shape, dtype=wp.float32, device=device)
        self.qvel = wp.zeros(shape, dtype=wp.float32, device=device)
        self.ctrl = wp.zeros(shape, dtype=wp.float32, device=device)


class GraphedSim:
    def __init__(self, data, substeps, dt, device):
        self.data = data
        self.device = device
        self.stream = wp.Stream(device)
        wp.synchronize_device(device)
        wp.load_module(device=device)
        with wp.ScopedStream(self.stream):
            wp.capture_begin(device=device)
            for _ in range(substeps):
                self._substep(dt)
            self.graph = wp.capture_end(device=device)

    def _substep(self, dt):
        d = self.data
        wp.launch(apply_controls, dim=d.shape, inputs=[d.ctrl, d.qvel, dt], device=self.device)
        wp.launch(integrate, dim=d.shape, inputs=[d.qpos, d.qvel, dt], device=self.device)

    def step(self):
        wp.capture_launch(self.graph, stream=self.stream)


class ControlFeed:
    """Pinned control buffer uploaded behind the previous simulation step."""

    def __init__(self, sim):
        self.sim = sim
        self.upload = wp.Stream(sim.device)
        self.uploaded = wp.Event(sim.device)
        self.host = wp.zeros(sim.data.shape, dtype=wp.float32, device="cpu", pinned=True)
        self.view = self.host.numpy()
        self.sent = False

    def push(self, controls):
        if self.sent:
            wp.synchronize_event(self.uploaded)
        self.view[:] = controls
        self.upload.wait_stream(self.sim.stream)
        wp.copy(self.sim.data.ctrl, self.host, stream=self.upload)
        self.upload.record_event(self.uploaded)
        self.sent = True


class Environment:
    def __init__(self, num_envs, joints, device):
        self.sim = GraphedSim(SimData(num_envs, joints, device), 10, 0.002, device)
        self.feed = ControlFeed(self.sim)

    def step(self, controls):
        self.feed.push(controls)
        self.sim.step()

    def observe(self):
        wp.synchronize_stream(self.sim.stream)
        return self.sim.data.qpos.numpy()


def main():
    wp.init()
    rng = np.random.default_rng(4)
    env = Environment(8192, 16, "cuda:0")
    for step in range(100):
        env.step(rng.standard_normal((8192, 16)).astype(np.float32))
        if step % 25 == 24:
            print(step, env.observe().std())


if __name__ == "__main__":
    main()
