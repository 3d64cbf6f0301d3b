"""Embedding table kept in host memory, with rows cached on the GPU for a step."""
from __future__ import annotations

import numpy as np
import torch


class HostEmbedding:
    def __init__(self, rows: int, dim: int, device: torch.device, seed: int = 0):
        gen = torch.Generator().manual_seed(seed)
        self.table = torch.randn(rows, dim, generator=gen) * 0.02
        self.device = device
        self._fetch = torch.cuda.Stream(device=device)
        self._scratch = torch.empty(0, dim)

    def _gather(self, unique: torch.Tensor) -> torch.Tensor:
        if self._scratch.shape[0] < unique.numel():
            self._scratch = torch.empty(unique.numel(), self.table.shape[1])
        rows = self._scratch[: unique.numel()]
        torch.index_select(self.table, 0, unique, out=rows)
        return rows

    def lookup(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns (rows, inverse, unique); rows is a leaf that receives gradients."""
        host_ids = ids.cpu().flatten()
        unique, inverse = torch.unique(host_ids, return_inverse=True)
        rows = self._gather(unique)
        with torch.cuda.stream(self._fetch):
            dev_rows = rows.to(self.device)
            dev_inverse = inverse.to(self.device)
        consumer = torch.cuda.current_stream(self.device)
        dev_rows.record_stream(consumer)
        dev_inverse.record_stream(consumer)
        dev_rows.requires_grad_(True)
        return dev_rows, dev_inverse.view(ids.shape), unique

    def apply_gradient(self, unique: torch.Tensor, grad: torch.Tensor | None, lr: float) -> None:
        if grad is None:
            return
        self.table.index_add_(0, unique, grad.cpu(), alpha=-lr)


class Classifier(torch.nn.Module):
    def __init__(self, dim: int, classes: int):
        super().__init__()
        self.proj = torch.nn.Linear(dim, classes)

    def forward(self, rows: torch.Tensor, inverse: torch.Tensor) -> torch.Tensor:
        return self.proj(torch.nn.functional.embedding(inverse, rows).mean(dim=1))


def main() -> None:
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    embedding = HostEmbedding(200_000, 64, device)
    model = Classifier(64, 4).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.1)
    rng = np.random.default_rng(5)
    for step in range(40):
        ids = torch.from_numpy(rng.integers(0, 200_000, size=(128, 16))).to(device)
        target = (ids.sum(dim=1) % 4).long()
        rows, inverse, unique = embedding.lookup(ids)
        loss = torch.nn.functional.cross_entropy(model(rows, inverse), target)
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        embedding.apply_gradient(unique, rows.grad, lr=0.1)
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
