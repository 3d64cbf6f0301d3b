"""Policy server: the whole inference, copies included, is one CUDA graph."""
import numpy as np
import torch


class GraphedPolicy:
    """Replays upload, network and download for one observation batch."""

    def __init__(self, network, batch, width, actions):
        self.network = network
        self.stream = torch.cuda.Stream()
        self.host_obs = torch.zeros(batch, width, pin_memory=True)
        self.host_act = torch.zeros(batch, actions, pin_memory=True)
        self.obs = torch.zeros(batch, width, device="cuda")
        self.done = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self._body()
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self._body()

    def _body(self):
        self.obs.copy_(self.host_obs, non_blocking=True)
        action = self.network(self.obs)
        self.host_act.copy_(action, non_blocking=True)

    def launch(self, observations):
        self.host_obs.numpy()[...] = observations
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            self.done.record()

    def wait(self):
        self.done.synchronize()
        return self.host_act.numpy().copy()


@torch.no_grad()
def main(steps=500, batch=256, width=64, actions=8):
    network = torch.nn.Sequential(
        torch.nn.Linear(width, 256), torch.nn.Tanh(), torch.nn.Linear(256, actions)).cuda()
    policy = GraphedPolicy(network, batch, width, actions)
    rng = np.random.default_rng(1)
    state = rng.standard_normal((batch, width)).astype(np.float32)
    total = 0.0
    for _ in range(steps):
        policy.launch(state)
        drift = rng.standard_normal((batch, width)).astype(np.float32)
        action = policy.wait()
        state = 0.9 * state + 0.1 * drift
        state[:, :actions] += action
        total += float(action.mean())
    print(total / steps)


if __name__ == "__main__":
    main()
