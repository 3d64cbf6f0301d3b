"""Reduce-scatter staging with the region reductions on a side stream, captured as a fork/join."""
from __future__ import annotations

import torch


class OverlapReducer:
    """Copies region k on the caller's stream and reduces region k on a side stream."""

    def __init__(self, regions: int) -> None:
        self.regions = regions
        self._eager = (torch.cuda.Stream(), [torch.cuda.Event() for _ in range(regions + 1)])

    def _resources(self):
        if torch.cuda.is_current_stream_capturing():
            return torch.cuda.Stream(), [torch.cuda.Event() for _ in range(self.regions + 1)]
        return self._eager

    def __call__(self, contributions: torch.Tensor, staging: torch.Tensor, out: torch.Tensor) -> None:
        caller = torch.cuda.current_stream()
        side, events = self._resources()
        stage_done, all_done = events[:-1], events[-1]
        side.wait_stream(caller)
        parts_in = contributions.chunk(self.regions, dim=1)
        parts_mid = staging.chunk(self.regions, dim=1)
        parts_out = out.chunk(self.regions, dim=0)
        for k in range(self.regions):
            parts_mid[k].copy_(parts_in[k])
            stage_done[k].record(caller)
            with torch.cuda.stream(side):
                side.wait_event(stage_done[k])
                torch.sum(parts_mid[k], dim=0, out=parts_out[k])
        all_done.record(side)
        caller.wait_event(all_done)


class CapturedReduce:
    def __init__(self, ranks: int, numel: int, regions: int) -> None:
        self.reducer = OverlapReducer(regions)
        self.contributions = torch.zeros(ranks, numel, device="cuda")
        self.staging = torch.zeros(ranks, numel, device="cuda")
        self.out = torch.zeros(numel, device="cuda")
        self.reducer(self.contributions, self.staging, self.out)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.reducer(self.contributions, self.staging, self.out)
            self.out.mul_(1.0 / ranks)

    def replay(self, contributions: torch.Tensor) -> torch.Tensor:
        self.contributions.copy_(contributions)
        self.graph.replay()
        return self.out.clone()

    def eager(self, contributions: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(self.out)
        staging = torch.empty_like(self.staging)
        self.reducer(contributions, staging, out)
        return out.mul_(1.0 / contributions.shape[0])


def main() -> None:
    ranks, numel = 8, 1 << 22
    captured = CapturedReduce(ranks, numel, regions=4)
    worst = 0.0
    for step in range(10):
        data = torch.randn(ranks, numel, device="cuda")
        a = captured.replay(data)
        b = captured.eager(data)
        worst = max(worst, (a - b).abs().max().item())
    print(worst)


if __name__ == "__main__":
    main()
