from dataclasses import dataclass

import torch


@dataclass
class SparseBatch:
    dense: torch.Tensor
    indices: torch.Tensor
    labels: torch.Tensor

    def to(self, device, non_blocking=False):
        return SparseBatch(
            self.dense.to(device, non_blocking=non_blocking),
            self.indices.to(device, non_blocking=non_blocking),
            self.labels.to(device, non_blocking=non_blocking),
        )

    def record_stream(self, stream):
        for t in (self.dense, self.indices, self.labels):
            t.record_stream(stream)


class CachedEmbedding(torch.nn.Module):
    """Rows live in host memory; a device cache is filled by prefetch()."""

    def __init__(self, rows, dim, cache_rows, device):
        super().__init__()
        self.host = torch.randn(rows, dim).pin_memory()
        self.cache = torch.zeros(2, cache_rows, dim, device=device)
        self.slot = 0

    def prefetch(self, indices):
        slot = self.slot
        self.slot = 1 - slot
        uniq, inverse = torch.unique(indices, return_inverse=True)
        rows = self.host[uniq.cpu()].pin_memory()
        self.cache[slot, : rows.shape[0]].copy_(rows, non_blocking=True)
        return slot, inverse

    def forward(self, slot, inverse):
        return self.cache[slot][inverse].sum(dim=1)


class PrefetchTrainPipeline:
    def __init__(self, emb, model, opt, device):
        self.emb, self.model, self.opt, self.device = emb, model, opt, device
        self.memcpy_stream = torch.cuda.Stream(device)
        self.prefetch_stream = torch.cuda.Stream(device)
        self.default_stream = torch.cuda.current_stream(device)
        self.batch_i = self.batch_ip1 = None
        self.ctx_i = None

    def _copy(self, it):
        batch = next(it, None)
        if batch is None:
            return None
        with torch.cuda.stream(self.memcpy_stream):
            return batch.to(self.device, non_blocking=True)

    def _prefetch(self, batch):
        if batch is None:
            return None
        self.prefetch_stream.wait_stream(self.memcpy_stream)
        self.prefetch_stream.wait_stream(self.default_stream)
        batch.record_stream(self.prefetch_stream)
        with torch.cuda.stream(self.prefetch_stream):
            slot, inverse = self.emb.prefetch(batch.indices)
        inverse.record_stream(self.default_stream)
        return slot, inverse

    def progress(self, it):
        if self.batch_i is None:
            self.batch_i = self._copy(it)
            self.ctx_i = self._prefetch(self.batch_i)
        if self.batch_i is None:
            raise StopIteration
        self.batch_ip1 = self._copy(it)
        self.default_stream.wait_stream(self.memcpy_stream)
        self.batch_i.record_stream(self.default_stream)
        pooled = self.emb(*self.ctx_i)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            self.model(self.batch_i.dense, pooled), self.batch_i.labels
        )
        ctx_ip1 = self._prefetch(self.batch_ip1)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        self.batch_i, self.ctx_i = self.batch_ip1, ctx_ip1
        return loss.detach()
