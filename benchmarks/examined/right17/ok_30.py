"""Sparse training of an embedding table that stays in host memory."""
from typing import Iterable, Optional, Tuple

import torch
from torch import nn


class HostEmbedding:
    def __init__(self, rows: int, dim: int, max_ids: int, device: torch.device, lr: float = 0.1):
        self.device = device
        self.lr = lr
        self.max_ids = max_ids
        self.table = torch.randn(rows, dim) * dim**-0.5
        self.up = torch.empty(max_ids, dim, pin_memory=True)
        self.down = torch.empty(max_ids, dim, pin_memory=True)
        self.up_done = torch.cuda.Event()
        self.down_done = torch.cuda.Event()
        self.side = torch.cuda.Stream(device=device)
        self.pending: Optional[torch.Tensor] = None

    def settle(self) -> None:
        """Applies gradients that were sent to the host by the last push."""
        ids, self.pending = self.pending, None
        if ids is not None:
            self.down_done.synchronize()
            self.table.index_add_(0, ids, self.down[: ids.numel()], alpha=-self.lr)

    def pull(self, unique: torch.Tensor) -> torch.Tensor:
        """Returns device rows for sorted distinct ``unique`` ids."""
        n = unique.numel()
        if n > self.max_ids:
            raise ValueError("too many distinct ids")
        self.settle()
        self.up_done.synchronize()
        torch.index_select(self.table, 0, unique, out=self.up[:n])
        rows = self.up[:n].to(self.device, non_blocking=True)
        self.up_done.record(torch.cuda.current_stream(self.device))
        return rows.requires_grad_(True)

    def push(self, unique: torch.Tensor, grad: torch.Tensor) -> None:
        self.settle()
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            self.down[: unique.numel()].copy_(grad, non_blocking=True)
            self.down_done.record(self.side)
        grad.record_stream(self.side)
        self.pending = unique

    def export(self) -> torch.Tensor:
        self.settle()
        return self.table.clone()


def train(embedding: HostEmbedding, head: nn.Module, optimizer,
          batches: Iterable[Tuple[torch.Tensor, torch.Tensor]]) -> float:
    loss = None
    for ids, target in batches:
        unique, inverse = torch.unique(ids, return_inverse=True)
        rows = embedding.pull(unique)
        pooled = rows[inverse.to(embedding.device)].mean(dim=1)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.binary_cross_entropy_with_logits(
            head(pooled).squeeze(-1), target.to(embedding.device))
        loss.backward()
        embedding.push(unique, rows.grad)
        optimizer.step()
    embedding.settle()
    return float("nan") if loss is None else loss.item()
