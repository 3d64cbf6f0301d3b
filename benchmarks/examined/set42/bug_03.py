"""Split-K GEMM with a process-wide workspace cache and decode graphs."""
import torch


class WorkspaceCache:
    def __init__(self):
        self._buffers = {}

    def get(self, name, numel, device):
        key = (name, device)
        buf = self._buffers.get(key)
        if buf is None or buf.numel() < numel:
            buf = torch.empty(numel, dtype=torch.float32, device=device)
            self._buffers[key] = buf
        return buf


_workspaces = WorkspaceCache()


class SplitKLinear:
    def __init__(self, k, n, splits, device):
        self.splits = splits
        self.device = torch.device(device)
        self.weight = torch.randn(splits, k // splits, n, device=device)

    def __call__(self, x):
        m, k = x.shape
        n = self.weight.shape[2]
        ws = _workspaces.get("splitk", self.splits * m * n, self.device)
        partial = ws[: self.splits * m * n].view(self.splits, m, n)
        xs = x.view(m, self.splits, k // self.splits).transpose(0, 1)
        torch.bmm(xs, self.weight, out=partial)
        return partial.sum(0)


class DecodeGraphs:
    """One captured graph for each decode batch size."""

    def __init__(self, layer, hidden, sizes):
        self.layer = layer
        self.hidden = hidden
        self.entries = {}
        for size in sorted(sizes, reverse=True):
            self.entries[size] = self._capture(size)

    def _capture(self, size):
        x = torch.zeros(size, self.hidden, device=self.layer.device)
        self.layer(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = self.layer(x)
        return graph, x, y

    def run(self, x):
        graph, static_x, static_y = self.entries[x.shape[0]]
        static_x.copy_(x)
        graph.replay()
        return static_y.clone()


class Runner:
    def __init__(self, hidden=1024, device="cuda:0"):
        self.device = device
        self.layer = SplitKLinear(hidden, hidden, 4, device)
        self.decode = DecodeGraphs(self.layer, hidden, (1, 2, 4, 8))
        self.states = []

    def prefill(self, prompt):
        y = self.layer(prompt)
        self.states.append(y[-1:].repeat(32, 1))
        return y[-1:]

    def generate(self, prompt, steps):
        h = self.prefill(prompt)
        for _ in range(steps):
            h = self.decode.run(torch.tanh(h))
        return h


def main():
    runner = Runner()
    for length in (16, 700, 1500):
        out = runner.generate(torch.randn(length, 1024, device="cuda:0"), 20)
        print(length, out.norm().item(), runner.states[-1].norm().item())


if __name__ == "__main__":
    main()
