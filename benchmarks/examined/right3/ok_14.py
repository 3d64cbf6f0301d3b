"""Stashing embedding weights in host memory between lookups."""
from dataclasses import dataclass

import torch


@dataclass
class StashEntry:
    tensor: torch.Tensor
    host: torch.Tensor
    nbytes: int
    done: torch.cuda.Event


class MemoryStash:
    def __init__(self):
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self._entries: dict[str, StashEntry] = {}

    def stash(self, name: str, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            host.copy_(tensor, non_blocking=True)
            done = self.d2h_stream.record_event()
        tensor.record_stream(self.d2h_stream)
        self._entries[name] = StashEntry(tensor, host, storage.nbytes(), done)
        storage.resize_(0)

    def restore(self, name: str) -> torch.Tensor:
        entry = self._entries.pop(name)
        current = torch.cuda.current_stream()
        entry.tensor.untyped_storage().resize_(entry.nbytes)
        self.h2d_stream.wait_event(entry.done)
        self.h2d_stream.wait_stream(current)
        with torch.cuda.stream(self.h2d_stream):
            entry.tensor.copy_(entry.host, non_blocking=True)
        current.wait_stream(self.h2d_stream)
        return entry.tensor


class EmbeddingTower:
    def __init__(self, rows: int, dim: int, tables: int):
        self.tables = {f"t{i}": torch.randn(rows, dim, device="cuda") for i in range(tables)}
        self.stash = MemoryStash()
        for name, w in self.tables.items():
            self.stash.stash(name, w)

    @torch.no_grad()
    def lookup(self, ids: dict[str, torch.Tensor]) -> torch.Tensor:
        pooled = []
        for name, idx in ids.items():
            weight = self.stash.restore(name)
            pooled.append(weight[idx].sum(dim=1))
            weight.mul_(0.999)
            self.stash.stash(name, weight)
        return torch.cat(pooled, dim=1)


def main():
    tower = EmbeddingTower(100_000, 64, 6)
    dense = torch.nn.Linear(6 * 64, 32).cuda()
    for _ in range(50):
        ids = {f"t{i}": torch.randint(0, 100_000, (256, 8), device="cuda") for i in range(6)}
        out = dense(tower.lookup(ids))
    print(out.mean().item())


if __name__ == "__main__":
    main()
