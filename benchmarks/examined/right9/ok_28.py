from dataclasses import dataclass
from typing import Optional

import torch


@dataclass
class Workspace:
    data: torch.Tensor
    last_use: Optional[torch.cuda.Event] = None


class WorkspaceCache:
    """Workspaces are created on first use and handed from stream to stream."""

    def __init__(self):
        self._by_key = {}

    def acquire(self, numel, dtype):
        size = 1 << (numel - 1).bit_length()
        key = (size, dtype)
        ws = self._by_key.get(key)
        if ws is None:
            ws = self._by_key[key] = Workspace(torch.empty(size, dtype=dtype, device="cuda"))
        if ws.last_use is not None:
            torch.cuda.current_stream().wait_event(ws.last_use)
        return ws

    def release(self, ws):
        if ws.last_use is None:
            ws.last_use = torch.cuda.Event()
        ws.last_use.record()


class Splatter:
    def __init__(self, streams=3):
        self.cache = WorkspaceCache()
        self.streams = [torch.cuda.Stream() for _ in range(streams)]

    def _splat(self, points, weight, grid):
        ws = self.cache.acquire(points.numel(), torch.float32)
        scratch = ws.data[: points.numel()].view_as(points)
        torch.mul(points, grid.shape[0] - 1, out=scratch)
        index = scratch.long()
        flat = index[:, 0] * grid.shape[1] + index[:, 1]
        grid.view(-1).index_add_(0, flat, weight)
        self.cache.release(ws)

    def __call__(self, clouds, side=512):
        main = torch.cuda.current_stream()
        grids = [torch.zeros(side, side, device="cuda") for _ in clouds]
        for s in self.streams:
            s.wait_stream(main)
        for i, (points, weight) in enumerate(clouds):
            with torch.cuda.stream(self.streams[i % len(self.streams)]):
                self._splat(points, weight, grids[i])
        for s in self.streams:
            main.wait_stream(s)
        return torch.stack(grids)


def main():
    splat = Splatter()
    total = torch.zeros(512, 512, device="cuda")
    for r in range(20):
        clouds = [(torch.rand(1000 * (k + 1), 2, device="cuda"), torch.ones(1000 * (k + 1), device="cuda")) for k in range(6)]
        total += splat(clouds).sum(0)
    print(total.sum().item())


if __name__ == "__main__":
    main()
