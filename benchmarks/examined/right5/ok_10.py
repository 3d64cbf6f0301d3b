import bisect
from typing import Dict

import torch
from torch import nn


class DecodeGraphRunner:
    """Replays decode steps captured at fixed batch sizes; graphs share a memory pool."""

    def __init__(self, model: nn.Module, dim: int, sizes=(1, 2, 4, 8, 16, 32)):
        self.model = model
        self.sizes = sorted(sizes)
        self.graphs: Dict[int, torch.cuda.CUDAGraph] = {}
        self.outputs: Dict[int, torch.Tensor] = {}
        self.pool = None
        self.hidden = torch.zeros(self.sizes[-1], dim, device="cuda")
        self.positions = torch.zeros(self.sizes[-1], dtype=torch.long, device="cuda")

    @torch.inference_mode()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(self.hidden, self.positions)
        torch.cuda.current_stream().wait_stream(side)
        for bs in reversed(self.sizes):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.outputs[bs] = self.model(self.hidden[:bs], self.positions[:bs])
            if self.pool is None:
                self.pool = graph.pool()
            self.graphs[bs] = graph
        torch.cuda.synchronize()

    @torch.inference_mode()
    def __call__(self, hidden: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        n = hidden.shape[0]
        idx = bisect.bisect_left(self.sizes, n)
        if idx == len(self.sizes):
            return self.model(hidden, positions)
        bs = self.sizes[idx]
        self.hidden[:n].copy_(hidden)
        self.positions[:n].copy_(positions)
        if bs != n:
            self.hidden[n:bs].zero_()
            self.positions[n:bs].zero_()
        self.graphs[bs].replay()
        return self.outputs[bs][:n].clone()


class TinyDecoder(nn.Module):
    def __init__(self, dim=1024, max_pos=4096):
        super().__init__()
        self.pos = nn.Embedding(max_pos, dim)
        self.fc = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, hidden, positions):
        h = hidden + self.pos(positions)
        return h + self.fc(h)


def main():
    runner = DecodeGraphRunner(TinyDecoder().cuda().eval(), 1024)
    runner.capture()
    outs = []
    for n in (3, 7, 1, 19, 32, 48):
        h = torch.randn(n, 1024, device="cuda")
        outs.append(runner(h, torch.arange(n, device="cuda")))
    print([o.norm().item() for o in outs])


if __name__ == "__main__":
    main()
