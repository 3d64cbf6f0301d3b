"""Train pipeline with an embedding-cache prefetch stage on its own stream."""
import torch
import torch.nn as nn


class PrefetchContext:
    def __init__(self):
        self.rows = None
        self.slots = None


class CachedEmbeddingBag(nn.Module):
    """Host table with a device cache; prefetch() fills cache slots for a batch."""

    def __init__(self, num_rows, dim, cache_rows, device):
        super().__init__()
        self.host_table = torch.randn(num_rows, dim, pin_memory=True)
        self.cache = nn.Parameter(torch.zeros(cache_rows, dim, device=device))
        self.cursor = 0
        self.cache_rows = cache_rows

    def prefetch(self, ids_cpu):
        uniq, inverse = ids_cpu.unique(return_inverse=True)
        n = uniq.numel()
        slots = (torch.arange(n) + self.cursor) % self.cache_rows
        self.cursor = (self.cursor + n) % self.cache_rows
        rows = self.host_table[uniq].pin_memory()
        slots_dev = slots.pin_memory().to(self.cache.device, non_blocking=True)
        self.cache.data[slots_dev] = rows.to(self.cache.device, non_blocking=True)
        return slots[inverse].pin_memory().to(self.cache.device, non_blocking=True)

    def forward(self, slots):
        return nn.functional.embedding(slots, self.cache).sum(dim=1)


class DLRM(nn.Module):
    def __init__(self, ebc, dim, dense_in):
        super().__init__()
        self.ebc = ebc
        self.bottom = nn.Sequential(nn.Linear(dense_in, dim), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(2 * dim, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense, slots):
        return self.top(torch.cat([self.bottom(dense), self.ebc(slots)], dim=1))


class PrefetchTrainPipeline:
    def __init__(self, model, optimizer, device):
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self._memcpy_stream = torch.cuda.Stream(device=device)
        self._prefetch_stream = torch.cuda.Stream(device=device)
        self._default_stream = torch.cuda.Stream(device=device)
        self._next = None

    def _start(self, batch):
        dense, ids, label = batch
        with torch.cuda.stream(self._memcpy_stream):
            dense = dense.pin_memory().to(self.device, non_blocking=True)
            label = label.pin_memory().to(self.device, non_blocking=True)
        self._prefetch_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._prefetch_stream):
            slots = self.model.ebc.prefetch(ids)
            slots.record_stream(torch.cuda.current_stream(self.device))
        return dense, slots, label

    def _wait_for_batch(self, batch):
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self._memcpy_stream)
        self._default_stream.wait_stream(self._prefetch_stream)
        for t in batch:
            t.record_stream(current)

    def progress(self, it):
        if self._next is None:
            self._next = self._start(next(it))
        batch = self._next
        self._wait_for_batch(batch)
        dense, slots, label = batch
        self.optimizer.zero_grad(set_to_none=True)
        logits = self.model(dense, slots)
        loss = nn.functional.binary_cross_entropy_with_logits(logits.squeeze(1), label)
        loss.backward()
        self.optimizer.step()
        self._next = self._start(next(it))
        return loss.detach()


def train(batches, num_rows=10_000_000, dim=128, cache_rows=1 << 20):
    device = torch.device("cuda", 0)
    ebc = CachedEmbeddingBag(num_rows, dim, cache_rows, device)
    model = DLRM(ebc, dim, 13).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pipeline = PrefetchTrainPipeline(model, optimizer, device)
    losses = []
    it = iter(batches)
    while True:
        try:
            losses.append(pipeline.progress(it))
        except StopIteration:
            break
    return torch.stack(losses).mean().item()
