import torch
import torch.nn as nn


class RecurrentPolicy(nn.Module):
    """Reads x and h of a dict and writes action and the new h into it."""

    def __init__(self, obs, hidden, actions):
        super().__init__()
        self.cell = nn.GRUCell(obs, hidden)
        self.out = nn.Linear(hidden, actions)

    def forward(self, data):
        h = self.cell(data["x"], data["h"])
        data["action"] = self.out(h).tanh()
        data["h"] = h
        return data


class CudaGraphModule:
    def __init__(self, module, in_keys, out_keys, warmup=2):
        self.module = module
        self.in_keys = in_keys
        self.out_keys = out_keys
        self.warmup = warmup
        self.counter = 0
        self.graph = None
        self._static = None
        self._warmup_stream = torch.cuda.Stream()

    def _eager(self, data):
        current = torch.cuda.current_stream()
        self._warmup_stream.wait_stream(current)
        with torch.cuda.stream(self._warmup_stream):
            out = self.module(dict(data))
        current.wait_stream(self._warmup_stream)
        for v in (*data.values(), *(out[k] for k in self.out_keys)):
            v.record_stream(self._warmup_stream)
            v.record_stream(current)
        return {k: out[k] for k in self.out_keys}

    def _capture(self, data):
        self._static = {k: data[k].clone() for k in self.in_keys}
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            out = self.module(self._static)
        self._out = {k: out[k] for k in self.out_keys}

    @torch.no_grad()
    def __call__(self, data):
        if self.counter < self.warmup:
            self.counter += 1
            return self._eager(data)
        if self.graph is None:
            self._capture(data)
        for key in self.in_keys:
            self._static[key].copy_(data[key], non_blocking=True)
        self.graph.replay()
        return {k: v.clone() for k, v in self._out.items()}


def rollout(env, policy, steps, hidden):
    graphed = CudaGraphModule(policy, in_keys=["x", "h"], out_keys=["action", "h"])
    obs = env.reset()
    h = torch.zeros(obs.shape[0], hidden, device=obs.device)
    for _ in range(steps):
        out = graphed({"x": obs, "h": h})
        obs, done = env.step(out["action"])
        h = out["h"] * (~done).unsqueeze(-1)
    return h
