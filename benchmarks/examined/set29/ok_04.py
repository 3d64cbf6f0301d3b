"""Host-resident n-gram embedding rows, prefetched one layer ahead during decode."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class RowSlot:
    host_rows: torch.Tensor
    device_rows: torch.Tensor
    uploaded: torch.cuda.Event
    consumed: torch.cuda.Event
    num_tokens: int = 0


class HostRowPrefetcher:
    """Two slots; slot i is refilled only after its upload and its reader are done."""

    def __init__(self, table: torch.Tensor, max_tokens: int) -> None:
        self.table = table
        dim = table.shape[1]
        self.stream = torch.cuda.Stream()
        self.slots = [
            RowSlot(
                torch.empty(max_tokens, dim, dtype=table.dtype, pin_memory=True),
                torch.empty(max_tokens, dim, dtype=table.dtype, device="cuda"),
                torch.cuda.Event(),
                torch.cuda.Event(),
            )
            for _ in range(2)
        ]
        self.stream.wait_stream(torch.cuda.current_stream())

    def start(self, layer_id: int, row_ids: torch.Tensor) -> None:
        slot = self.slots[layer_id % 2]
        n = row_ids.numel()
        slot.uploaded.synchronize()
        torch.index_select(self.table, 0, row_ids, out=slot.host_rows[:n])
        slot.num_tokens = n
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(slot.consumed)
            slot.device_rows[:n].copy_(slot.host_rows[:n], non_blocking=True)
            slot.uploaded.record(self.stream)

    def rows(self, layer_id: int) -> torch.Tensor:
        slot = self.slots[layer_id % 2]
        torch.cuda.current_stream().wait_event(slot.uploaded)
        return slot.device_rows[: slot.num_tokens]

    def release(self, layer_id: int) -> None:
        self.slots[layer_id % 2].consumed.record(torch.cuda.current_stream())


class EngramLayer(nn.Module):
    def __init__(self, dim: int, row_dim: int) -> None:
        super().__init__()
        self.wkv = nn.Linear(row_dim, 2 * dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        k, v = self.wkv(rows).chunk(2, dim=-1)
        x = x + torch.sigmoid((x * k).sum(-1, keepdim=True)) * v
        return x + self.mlp(x)


class Decoder(nn.Module):
    def __init__(self, num_layers: int, dim: int, row_dim: int, table_rows: int, max_tokens: int):
        super().__init__()
        self.layers = nn.ModuleList([EngramLayer(dim, row_dim) for _ in range(num_layers)]).cuda()
        self.table_rows = table_rows
        self.prefetcher = HostRowPrefetcher(torch.randn(table_rows, row_dim), max_tokens)

    def _row_ids(self, token_ids: torch.Tensor, layer_id: int) -> torch.Tensor:
        return (token_ids * 2654435761 + layer_id * 97) % self.table_rows

    @torch.inference_mode()
    def forward(self, token_ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.prefetcher.start(0, self._row_ids(token_ids, 0))
        for i, layer in enumerate(self.layers):
            if i + 1 < len(self.layers):
                self.prefetcher.start(i + 1, self._row_ids(token_ids, i + 1))
            x = layer(x, self.prefetcher.rows(i))
            self.prefetcher.release(i)
        return x


if __name__ == "__main__":
    model = Decoder(12, 1024, 256, 1 << 16, 64)
    for _ in range(8):
        ids = torch.randint(0, 32000, (32,))
        out = model(ids, torch.randn(32, 1024, device="cuda"))
    print(out.float().norm().item())
