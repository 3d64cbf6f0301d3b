import torch
import warp as wp


@wp.kernel
def step_kernel(q_in: wp.array(dtype=float), qd_in: wp.array(dtype=float),
                q_out: wp.array(dtype=float), qd_out: wp.array(dtype=float),
                action: wp.array(dtype=float), dt: float):
    i = wp.tid()
    v = qd_in[i] + (action[i] - 0.1 * qd_in[i]) * dt
    qd_out[i] = v
    q_out[i] = q_in[i] + v * dt


class State:
    def __init__(self, n, device):
        self.q = wp.zeros(n, dtype=float, device=device)
        self.qd = wp.zeros(n, dtype=float, device=device)

    def copy_from(self, other):
        wp.copy(self.q, other.q)
        wp.copy(self.qd, other.qd)


class NewtonEnv:
    def __init__(self, n, decimation=3, dt=0.002, device="cuda:0"):
        self.n, self.decimation, self.dt = n, decimation, dt
        self.device = device
        self.torch_stream = torch.cuda.Stream(device)
        self.wp_stream = wp.stream_from_torch(self.torch_stream)
        self.state_0 = State(n, device)
        self.state_1 = State(n, device)
        self.action = wp.zeros(n, dtype=float, device=device)
        wp.load_module(device=device)
        wp.synchronize_device(device)
        self.graph = None

    def simulate(self):
        src, dst = self.state_0, self.state_1
        for _ in range(self.decimation):
            wp.launch(step_kernel, dim=self.n,
                      inputs=[src.q, src.qd, dst.q, dst.qd, self.action, self.dt], device=self.device)
            src, dst = dst, src
        if src is not self.state_0:
            self.state_0.copy_from(src)

    def capture(self):
        with wp.ScopedStream(self.wp_stream):
            with wp.ScopedCapture(stream=self.wp_stream) as cap:
                self.simulate()
        self.graph = cap.graph

    def step(self, action):
        if self.graph is None:
            self.capture()
        with wp.ScopedStream(self.wp_stream):
            wp.copy(self.action, wp.from_torch(action))
            wp.capture_launch(self.graph, stream=self.wp_stream)
        return wp.to_torch(self.state_0.q)


@torch.no_grad()
def rollout(policy, env, steps):
    env.torch_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(env.torch_stream):
        obs = wp.to_torch(env.state_0.q)
        total = torch.zeros((), device=env.device)
        for _ in range(steps):
            action = policy(obs.unsqueeze(-1)).squeeze(-1).contiguous()
            obs = env.step(action)
            total += obs.abs().mean()
        return total.item()
