"""Sparse voxel rule counts: several streams add into one table in turn."""
import torch


class Baton:
    """Passes exclusive access to a shared table from one stream to the next."""

    def __init__(self, device):
        self.last = torch.cuda.Event()
        self.last.record(torch.cuda.current_stream(device))

    def take(self, stream):
        stream.wait_event(self.last)

    def drop(self, stream):
        self.last = stream.record_event()


class RuleCounter:
    def __init__(self, grid, device, streams=4):
        self.grid = grid
        self.device = device
        self.table = torch.zeros(grid ** 3, dtype=torch.int32, device=device)
        self.first = torch.full((grid ** 3,), 2 ** 30, dtype=torch.int64, device=device)
        self.streams = [torch.cuda.Stream(device) for _ in range(streams)]
        self.baton = Baton(device)
        self.turn = 0

    def _cells(self, points):
        ijk = (points * self.grid).long().clamp_(0, self.grid - 1)
        return (ijk[:, 0] * self.grid + ijk[:, 1]) * self.grid + ijk[:, 2]

    def add(self, points, offset):
        stream = self.streams[self.turn % len(self.streams)]
        self.turn += 1
        stream.wait_stream(torch.cuda.current_stream(self.device))
        points.record_stream(stream)
        with torch.cuda.stream(stream):
            cells = self._cells(points)
            uniq, counts = cells.sort()[0].unique_consecutive(return_counts=True)
            ids = torch.arange(offset, offset + cells.numel(), device=self.device)
            self.baton.take(stream)
            self.table[uniq] += counts.int()
            self.first.scatter_reduce_(0, cells, ids, reduce="amin")
            self.baton.drop(stream)

    def finish(self):
        main = torch.cuda.current_stream(self.device)
        for stream in self.streams:
            main.wait_stream(stream)
        used = self.table.nonzero().squeeze(1)
        return used, self.table[used], self.first[used]


def scans(n, points, device, seed=0):
    gen = torch.Generator(device=device).manual_seed(seed)
    for _ in range(n):
        centre = torch.rand(1, 3, device=device, generator=gen)
        spread = 0.15 * torch.randn(points, 3, device=device, generator=gen)
        yield (centre + spread).clamp_(0.0, 0.9999)


def main(n=40, points=200_000, grid=96):
    device = torch.device("cuda:0")
    counter = RuleCounter(grid, device)
    offset = 0
    for cloud in scans(n, points, device):
        counter.add(cloud, offset)
        offset += cloud.shape[0]
    cells, counts, first = counter.finish()
    assert int(counts.sum()) == offset
    print("occupied", cells.numel(), "densest", int(counts.max()), "oldest", int(first.min()))


if __name__ == "__main__":
    main()
