import abc

import torch


def record_batch(batch, stream):
    for t in batch.values():
        if t.is_cuda:
            t.record_stream(stream)


class TrainPipelineBase(abc.ABC):
    def __init__(self, model, optimizer, device):
        self.model = model
        self.optimizer = optimizer
        self.device = torch.device(device)
        self.side = torch.cuda.Stream(device=self.device, priority=-1)
        self._next = None
        self._exhausted = False

    @abc.abstractmethod
    def load(self, raw):
        """Move a batch to the device; runs on the side stream."""

    @abc.abstractmethod
    def prefetch(self, batch):
        """Prepare the batch; runs on the side stream."""

    def _fetch(self, iterator):
        raw = next(iterator, None)
        if raw is None:
            self._exhausted = True
            self._next = None
            return
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            batch = self.load(raw)
            self.prefetch(batch)
        self._next = batch

    def progress(self, iterator):
        if self._next is None:
            if self._exhausted:
                raise StopIteration
            self._fetch(iterator)
            if self._next is None:
                raise StopIteration
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.side)
        batch = self._next
        record_batch(batch, current)
        losses = self.model(batch)
        self._fetch(iterator)
        self.optimizer.zero_grad(set_to_none=True)
        current.wait_stream(self.side)
        losses.mean().backward()
        self.optimizer.step()
        return losses.detach()


class CachedEmbedding(torch.nn.Module):
    """Rows live in pinned host memory; a device cache holds the rows in use."""

    def __init__(self, rows, dim, slots, device):
        super().__init__()
        self.host = torch.randn(rows, dim).pin_memory()
        self.cache = torch.nn.Parameter(torch.zeros(slots, dim, device=device))
        self.cursor = 0

    def reserve(self, ids):
        n = ids.numel()
        if self.cursor + n > self.cache.shape[0]:
            self.cursor = 0
        slots = torch.arange(self.cursor, self.cursor + n)
        self.cursor += n
        return slots

    def fill(self, slots, rows):
        self.cache.data[slots[0] : slots[-1] + 1] = rows


class PrefetchPipeline(TrainPipelineBase):
    def __init__(self, model, embedding, optimizer, device="cuda"):
        super().__init__(model, optimizer, device)
        self.embedding = embedding

    def load(self, raw):
        ids = raw["ids"]
        slots = self.embedding.reserve(ids)
        rows = self.embedding.host[ids].pin_memory()
        return {
            "dense": raw["dense"].to(self.device, non_blocking=True),
            "label": raw["label"].to(self.device, non_blocking=True),
            "rows": rows.to(self.device, non_blocking=True),
            "slots": slots,
        }

    def prefetch(self, batch):
        self.embedding.fill(batch["slots"], batch["rows"])


def train(pipeline, loader, log):
    iterator = iter(loader)
    while True:
        try:
            log(pipeline.progress(iterator))
        except StopIteration:
            return
