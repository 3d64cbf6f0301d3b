"""Sharded embedding look-up: one flat buffer carries all tables, consumers run on several streams."""
import torch
from torch import nn


class FlatBatch:
    """One allocation with the ids of all towers."""

    def __init__(self, flat, sizes):
        self.flat = flat
        self.parts = list(torch.split(flat, sizes))

    def used_on(self, stream):
        self.parts[0].record_stream(stream)


class Tower(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.table = nn.EmbeddingBag(rows, dim, mode="mean")
        self.proj = nn.Linear(dim, dim)

    def forward(self, ids, per_row):
        return torch.relu(self.proj(self.table(ids.view(-1, per_row))))


class MultiTower:
    def __init__(self, n_towers=4, rows=50_000, dim=64, per_row=8, device="cuda:0"):
        self.device = torch.device(device)
        self.per_row = per_row
        self.towers = [Tower(rows, dim).to(self.device) for _ in range(n_towers)]
        self.streams = [torch.cuda.Stream(self.device) for _ in range(n_towers)]
        self.rows = rows
        torch.cuda.synchronize(self.device)

    def _stage(self, id_lists):
        sizes = [len(ids) for ids in id_lists]
        host = torch.empty(sum(sizes), dtype=torch.int64, pin_memory=True)
        torch.cat(id_lists, out=host)
        flat = host.to(self.device, non_blocking=True)
        return FlatBatch(flat, sizes)

    @torch.inference_mode()
    def _lookup(self, id_lists):
        main = torch.cuda.current_stream(self.device)
        batch = self._stage(id_lists)
        outputs = []
        for tower, stream, ids in zip(self.towers, self.streams, batch.parts):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                outputs.append(tower(ids, self.per_row))
            batch.used_on(stream)
        return outputs

    @torch.inference_mode()
    def pooled(self, id_lists):
        main = torch.cuda.current_stream(self.device)
        outputs = self._lookup(id_lists)
        for out, stream in zip(outputs, self.streams):
            main.wait_stream(stream)
            out.record_stream(main)
        return torch.cat(outputs, dim=1)


def main(requests=16, batch=512):
    service = MultiTower()
    results = []
    for _ in range(requests):
        ids = [torch.randint(service.rows, (batch * service.per_row,)) for _ in service.towers]
        results.append(service.pooled(ids))
    return torch.stack(results).mean().item()


if __name__ == "__main__":
    print(main())
