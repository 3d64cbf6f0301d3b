from collections import OrderedDict, deque

import torch
import torch.nn.functional as F


class UVMCachedTable:
    """Embedding rows in pinned host memory with a software-managed device cache."""

    def __init__(self, rows, dim, slots, lr):
        self.host = (torch.randn(rows, dim) * 0.01).pin_memory()
        self.cache = torch.empty(slots, dim, device="cuda")
        self.lr = lr
        self.slot_of = OrderedDict()
        self.free = list(range(slots))
        self.locked = {}

    def _evict(self):
        for row in self.slot_of:
            if self.locked.get(row, 0) == 0:
                break
        else:
            raise RuntimeError("cache too small for the batches in flight")
        slot = self.slot_of.pop(row)
        self.host[row].copy_(self.cache[slot], non_blocking=True)
        return slot

    def prefetch(self, rows):
        """Brings ``rows`` into the cache and locks them; runs on the current stream."""
        for row in rows:
            self.locked[row] = self.locked.get(row, 0) + 1
        for row in rows:
            if row in self.slot_of:
                self.slot_of.move_to_end(row)
                continue
            slot = self.free.pop() if self.free else self._evict()
            self.cache[slot].copy_(self.host[row], non_blocking=True)
            self.slot_of[row] = slot

    def slots(self, rows):
        return [self.slot_of[r] for r in rows]

    def lookup(self, slots):
        return F.embedding(slots, self.cache)

    def update(self, slots, grad):
        self.cache.index_add_(0, slots, grad, alpha=-self.lr)

    def unlock(self, rows):
        for row in rows:
            self.locked[row] -= 1


class Batch:
    def __init__(self, rows, label):
        self.rows = rows
        self.unique = sorted(set(rows))
        self.label = label
        self.slots = None


class PrefetchTrainPipeline:
    """Prefetches the rows of batch i+1 under the dense part of batch i."""

    def __init__(self, table, dense, optimizer):
        self.table = table
        self.dense = dense
        self.optimizer = optimizer
        self.prefetch_stream = torch.cuda.Stream()
        self.batches = deque()

    def _prefetch(self, batch):
        with torch.cuda.stream(self.prefetch_stream):
            self.table.prefetch(batch.unique)
        self.batches.append(batch)

    def run(self, loader):
        batches = iter(loader)
        current = torch.cuda.current_stream()
        self.prefetch_stream.wait_stream(current)
        self._prefetch(next(batches))
        current.wait_stream(self.prefetch_stream)
        while self.batches:
            batch = self.batches.popleft()
            slots = torch.tensor(self.table.slots(batch.rows)).pin_memory()
            slots = slots.to("cuda", non_blocking=True)
            emb = self.table.lookup(slots).requires_grad_()
            self.prefetch_stream.wait_stream(current)
            following = next(batches, None)
            if following is not None:
                self._prefetch(following)
            logits = self.dense(emb).squeeze(1)
            loss = F.binary_cross_entropy_with_logits(logits, batch.label.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            current.wait_stream(self.prefetch_stream)
            self.table.update(slots, emb.grad)
            self.table.unlock(batch.unique)
            self.prefetch_stream.wait_stream(current)
            yield loss.detach()
