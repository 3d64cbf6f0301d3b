"""Host-resident embedding rows are staged into a ring of device scratch pads ahead of the forward pass."""
from collections import deque
from typing import Deque, Iterable, List, NamedTuple

import torch
from torch import nn


class Staged(NamedTuple):
    pad: torch.Tensor
    inverse: torch.Tensor
    ready: torch.cuda.Event


class HostBackedEmbedding(nn.Module):
    def __init__(self, rows: int, dim: int, capacity: int, device: torch.device):
        super().__init__()
        self.host_rows = torch.randn(rows, dim)
        self.device = device
        self.prefetch_stream = torch.cuda.Stream(device)
        self.pads: List[torch.Tensor] = [
            torch.empty(capacity, dim, device=device) for _ in range(2)
        ]
        self._turn = 0
        self._staged: Deque[Staged] = deque()

    def prefetch(self, indices: torch.Tensor) -> None:
        """indices: flat CPU int64 tensor of one batch."""
        unique, inverse = torch.unique(indices, return_inverse=True)
        rows = self.host_rows[unique].pin_memory()
        inverse = inverse.pin_memory()
        pad = self.pads[self._turn]
        self._turn = (self._turn + 1) % len(self.pads)
        ready = torch.cuda.Event()
        with torch.cuda.stream(self.prefetch_stream):
            pad[: rows.shape[0]].copy_(rows, non_blocking=True)
            ready.record()
        self._staged.append(Staged(pad, inverse, ready))

    def forward(self) -> torch.Tensor:
        pad, inverse, ready = self._staged.popleft()
        torch.cuda.current_stream().wait_event(ready)
        positions = inverse.to(self.device, non_blocking=True)
        return pad.index_select(0, positions)


class Ranker(nn.Module):
    def __init__(self, embedding: HostBackedEmbedding, dim: int, fields: int):
        super().__init__()
        self.embedding = embedding
        self.fields = fields
        self.mlp = nn.Sequential(
            nn.Linear(dim * fields, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1)
        )

    def forward(self) -> torch.Tensor:
        pooled = self.embedding()
        return self.mlp(pooled.view(-1, self.fields * pooled.shape[-1]))


@torch.no_grad()
def score(model: Ranker, batches: Iterable[torch.Tensor]) -> torch.Tensor:
    scores = []
    source = iter(batches)
    model.embedding.prefetch(next(source))
    for upcoming in source:
        model.embedding.prefetch(upcoming)
        scores.append(model())
    scores.append(model())
    return torch.cat(scores).cpu()


def main() -> None:
    device = torch.device("cuda")
    embedding = HostBackedEmbedding(1_000_000, 128, 8192 * 16, device)
    model = Ranker(embedding, 128, 16).to(device).eval()
    batches = (torch.randint(0, 1_000_000, (8192 * 16,)) for _ in range(32))
    print(score(model, batches).mean())


if __name__ == "__main__":
    main()
