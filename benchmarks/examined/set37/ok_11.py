"""Voxelization of lidar sweeps: keys are hashed on one stream and reduced on another, in a shared arena."""
from dataclasses import dataclass, field
from typing import Iterable, List

import torch


@dataclass
class Lease:
    begin: int
    released: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class KeyArena:
    def __init__(self, leases: int, capacity: int, device: torch.device):
        self.capacity = capacity
        self.keys = torch.empty(leases * capacity, dtype=torch.int64, device=device)
        self._free: List[Lease] = [Lease(i * capacity) for i in range(leases)]
        torch.cuda.synchronize(device)

    def allocate(self, count: int, stream: torch.cuda.Stream):
        if count > self.capacity:
            raise MemoryError(f"{count} keys exceed {self.capacity}")
        lease = self._free.pop()
        stream.wait_event(lease.released)
        return lease, self.keys[lease.begin : lease.begin + count]

    def release(self, lease: Lease, last_reader: torch.cuda.Stream) -> None:
        lease.released.record(last_reader)
        self._free.append(lease)


class Voxelizer:
    def __init__(self, arena: KeyArena, cell: float = 0.2):
        self.arena = arena
        self.cell = cell
        self.hash_stream = torch.cuda.Stream()
        self.reduce_stream = torch.cuda.Stream()

    def _submit(self, points: torch.Tensor) -> torch.Tensor:
        self.hash_stream.wait_stream(torch.cuda.current_stream())
        lease, keys = self.arena.allocate(points.shape[0], self.hash_stream)
        with torch.cuda.stream(self.hash_stream):
            cells = torch.floor(points / self.cell).to(torch.int64) + (1 << 19)
            torch.add(cells[:, 0] << 40, (cells[:, 1] << 20) + cells[:, 2], out=keys)
        points.record_stream(self.hash_stream)
        self.reduce_stream.wait_stream(self.hash_stream)
        with torch.cuda.stream(self.reduce_stream):
            ordered = torch.sort(keys).values
            occupied = 1 + (ordered[1:] != ordered[:-1]).sum()
        self.arena.release(lease, self.reduce_stream)
        return occupied

    def occupied_cells(self, sweeps: Iterable[torch.Tensor]) -> torch.Tensor:
        counts = [self._submit(points) for points in sweeps]
        caller = torch.cuda.current_stream()
        caller.wait_stream(self.reduce_stream)
        for count in counts:
            count.record_stream(caller)
        return torch.stack(counts)


def sweeps(count: int, points: int, device: torch.device) -> Iterable[torch.Tensor]:
    for _ in range(count):
        yield torch.randn(points, 3, device=device) * torch.tensor([40.0, 40.0, 4.0], device=device)


def main() -> None:
    device = torch.device("cuda")
    voxelizer = Voxelizer(KeyArena(2, 1 << 22, device))
    print(voxelizer.occupied_cells(sweeps(32, 1 << 21, device)).tolist())


if __name__ == "__main__":
    main()
