"""Embedding table kept in host memory with lookups staged for the next step."""
from __future__ import annotations

import torch


class HostEmbedding:
    def __init__(self, rows: int, dim: int, device: torch.device, max_ids: int) -> None:
        self.table = torch.randn(rows, dim)
        self.dim = dim
        self.device = device
        self.max_ids = max_ids
        self.stream = torch.cuda.Stream(device)
        self.staging = [torch.empty(max_ids, dim, pin_memory=True) for _ in range(2)]
        self.done = [torch.cuda.Event(), torch.cuda.Event()]
        self.turn = 0
        self.staged: tuple[torch.Tensor, torch.Tensor, torch.cuda.Event] | None = None

    def prefetch(self, ids: torch.Tensor) -> None:
        flat = ids.reshape(-1)
        if flat.numel() > self.max_ids:
            raise ValueError("too many ids")
        slot = self.turn
        self.turn ^= 1
        self.done[slot].synchronize()
        rows = self.staging[slot][: flat.numel()]
        torch.index_select(self.table, 0, flat, out=rows)
        with torch.cuda.stream(self.stream):
            values = rows.to(self.device, non_blocking=True)
            values = values.mul_(self.dim ** 0.5)
        self.done[slot].record(self.stream)
        self.staged = (ids.clone(), values, self.stream.record_event())

    def lookup(self, ids: torch.Tensor) -> torch.Tensor:
        if self.staged is None or not torch.equal(self.staged[0], ids):
            self.prefetch(ids)
        _, values, ready = self.staged
        self.staged = None
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(ready)
        values.record_stream(stream)
        return values.view(*ids.shape, self.dim)

    def update(self, ids: torch.Tensor, grad: torch.Tensor, lr: float) -> None:
        delta = grad.reshape(-1, self.dim).to("cpu")
        self.table.index_add_(0, ids.reshape(-1), delta, alpha=-lr)
        self.staged = None


def train(steps: int, batch: int, device: torch.device) -> list[float]:
    table = HostEmbedding(100_000, 64, device, batch * 8)
    head = torch.nn.Linear(64, 1).to(device)
    opt = torch.optim.SGD(head.parameters(), lr=0.05)
    losses = []
    ids = torch.randint(0, 100_000, (batch, 8))
    for step in range(steps):
        emb = table.lookup(ids).requires_grad_(True)
        following = torch.randint(0, 100_000, (batch, 8))
        if step % 4:
            table.prefetch(following)
        loss = head(emb.mean(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 0:
            table.update(ids, emb.grad, 0.05)
        losses.append(loss.detach())
        ids = following
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    torch.cuda.set_device(0)
    print(train(40, 256, torch.device("cuda:0"))[-1])
