import logging
from typing import Dict, Iterable, Tuple

import torch
from torch import nn

logger = logging.getLogger(__name__)


class EmbeddingMemoryStash:
    """Parks embedding weights in host memory while the dense part of the model runs."""

    def __init__(self, tables: Iterable[Tuple[str, nn.EmbeddingBag]]):
        self._weights: Dict[str, torch.Tensor] = {name: t.weight.data for name, t in tables}
        self._host: Dict[str, torch.Tensor] = {
            name: torch.empty_like(w, device="cpu", pin_memory=True)
            for name, w in self._weights.items()
        }
        self._nbytes = {n: w.untyped_storage().nbytes() for n, w in self._weights.items()}
        self._d2h_stream = torch.cuda.Stream()
        self._stashed = False

    def stash(self) -> None:
        if self._stashed:
            return
        self._d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._d2h_stream):
            for name, weight in self._weights.items():
                self._host[name].copy_(weight, non_blocking=True)
        for weight in self._weights.values():
            weight.untyped_storage().resize_(0)
        self._stashed = True
        logger.info("stashed %d bytes", sum(self._nbytes.values()))

    def restore(self) -> None:
        if not self._stashed:
            return
        torch.cuda.current_stream().wait_stream(self._d2h_stream)
        for name, weight in self._weights.items():
            weight.untyped_storage().resize_(self._nbytes[name])
            weight.copy_(self._host[name], non_blocking=True)
        self._stashed = False


class StashedTrainPipeline:
    def __init__(self, sparse: nn.ModuleDict, dense: nn.Module, optimizer: torch.optim.Optimizer):
        self.sparse = sparse
        self.dense = dense
        self.optimizer = optimizer
        self.stash = EmbeddingMemoryStash(sparse.items())

    def progress(self, ids: Dict[str, torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
        self.stash.restore()
        with torch.no_grad():
            pooled = torch.cat([self.sparse[name](value) for name, value in ids.items()], dim=1)
        self.stash.stash()

        loss = nn.functional.binary_cross_entropy_with_logits(
            self.dense(pooled).squeeze(-1), labels
        )
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()
