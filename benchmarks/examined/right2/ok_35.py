from contextlib import ExitStack

import torch
import torch.nn as nn


class ParallelHeads(nn.Module):
    """Evaluates task heads side by side on a handful of streams."""

    def __init__(self, trunk: nn.Module, heads: dict, num_streams: int = 3):
        super().__init__()
        self.trunk = trunk
        self.heads = nn.ModuleDict(heads)
        self.streams = [torch.cuda.Stream() for _ in range(num_streams)]

    def _enter(self, stack: ExitStack, stream, main, results):
        stream.wait_stream(main)
        stack.callback(self._leave, stream, main, results)

    @staticmethod
    def _leave(stream, main, results):
        main.wait_stream(stream)
        for owner, value in results.values():
            if owner is stream:
                value.record_stream(main)

    @torch.no_grad()
    def forward(self, x):
        features = self.trunk(x)
        main = torch.cuda.current_stream()
        results = {}
        with ExitStack() as stack:
            for stream in self.streams:
                self._enter(stack, stream, main, results)
            for index, (name, head) in enumerate(self.heads.items()):
                stream = self.streams[index % len(self.streams)]
                with torch.cuda.stream(stream):
                    results[name] = (stream, head(features))
        return {name: value for name, (_, value) in results.items()}


def build(dim: int, tasks: dict) -> ParallelHeads:
    trunk = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
    heads = {name: nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, n))
             for name, n in tasks.items()}
    return ParallelHeads(trunk, heads).cuda().eval()


def score(model: ParallelHeads, loader):
    totals = {}
    for x in loader:
        for name, logits in model(x.cuda()).items():
            value = logits.logsumexp(dim=-1).sum()
            totals[name] = totals[name] + value if name in totals else value
    return {name: value.item() for name, value in totals.items()}


if __name__ == "__main__":
    net = build(256, {"depth": 32, "normal": 3, "semantic": 40, "edge": 1})
    print(score(net, (torch.randn(512, 256) for _ in range(20))))
