"""Smoothed-particle hydrodynamics with a hash grid rebuilt on a background stream every few steps."""
import torch


class HashGrid:
    def __init__(self, n):
        self.order = torch.arange(n, device="cuda")
        self.keys = torch.zeros(n, dtype=torch.long, device="cuda")


class GridService:
    def __init__(self, n, cell):
        self.cell = cell
        self.front, self.back = HashGrid(n), HashGrid(n)
        self.stream = torch.cuda.Stream()
        self.ready = torch.cuda.Event()

    def rebuild(self, pos):
        grid = self.back
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            snap = pos.clone()
            c = (snap / self.cell).long()
            keys = (c[:, 0] * 73856093) ^ (c[:, 1] * 19349663) ^ (c[:, 2] * 83492791)
            sorted_keys, order = torch.sort(keys % 65536)
            grid.keys.copy_(sorted_keys)
            grid.order.copy_(order)
            self.ready.record()
        torch.cuda.current_stream().wait_stream(self.stream)

    def swap(self):
        if self.ready.query():
            self.front, self.back = self.back, self.front
        return self.front


class LazyGridService(GridService):
    """Rebuild overlaps the following steps; the swap happens at the next rebuild boundary."""

    def rebuild(self, pos):
        grid = self.back
        snap = pos.clone()
        self.stream.wait_stream(torch.cuda.current_stream())
        snap.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            c = (snap / self.cell).long()
            keys = (c[:, 0] * 73856093) ^ (c[:, 1] * 19349663) ^ (c[:, 2] * 83492791)
            sorted_keys, order = torch.sort(keys % 65536)
            grid.keys.copy_(sorted_keys)
            grid.order.copy_(order)
            self.ready.record()

    def swap(self):
        self.front, self.back = self.back, self.front
        return self.front


def density(pos, grid):
    p = pos[grid.order]
    same = (grid.keys[1:] == grid.keys[:-1]).unsqueeze(1)
    return ((p[1:] - p[:-1]).abs() * same).sum()


def main(n=1_000_000, steps=500):
    pos = torch.rand(n, 3, device="cuda") * 50
    service = LazyGridService(n, 0.5)
    grid = service.front
    total = torch.zeros((), device="cuda")
    for step in range(steps):
        if step % 10 == 0:
            service.rebuild(pos)
        if step % 10 == 1:
            grid = service.swap()
        total += density(pos, grid)
        pos.add_(torch.randn_like(pos), alpha=1e-3)
    print(total.item())


if __name__ == "__main__":
    main()
