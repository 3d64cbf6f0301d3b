"""Feature-store reader that stages rows through a small pool of page-locked buffers."""
import threading
from collections import deque

import numpy as np
import torch


class PinnedPool:
    def __init__(self, count, nbytes):
        self.slab = torch.empty(count, nbytes, dtype=torch.uint8, pin_memory=True)
        self.free = deque(range(count))
        self.cond = threading.Condition()

    def acquire(self):
        with self.cond:
            while not self.free:
                self.cond.wait()
            return self.free.popleft()

    def release(self, index):
        with self.cond:
            self.free.append(index)
            self.cond.notify()

    def buffer(self, index, shape, dtype):
        nbytes = int(np.prod(shape)) * torch.empty((), dtype=dtype).element_size()
        return self.slab[index, :nbytes].view(dtype).view(shape)


class FeatureStore:
    def __init__(self, path, num_rows, dim):
        self.dim = dim
        self.table = np.memmap(path, dtype=np.float32, mode="r", shape=(num_rows, dim))

    def gather_into(self, rows, out):
        np.take(self.table, rows, axis=0, out=out.numpy())


class AsyncGatherer:
    def __init__(self, store, max_rows, device, buffers=2):
        self.store = store
        self.device = torch.device(device)
        self.pool = PinnedPool(buffers, max_rows * store.dim * 4)
        self.stream = torch.cuda.Stream(self.device)

    def copy_async(self, dst, src):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            dst.copy_(src, non_blocking=True)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def fetch(self, rows):
        shape = (len(rows), self.store.dim)
        index = self.pool.acquire()
        try:
            staging = self.pool.buffer(index, shape, torch.float32)
            self.store.gather_into(rows, staging)
            out = torch.empty(shape, dtype=torch.float32, device=self.device)
            self.copy_async(out, staging)
        finally:
            self.pool.release(index)
        return out


class Sampler:
    def __init__(self, indptr, indices, seed=0):
        self.indptr, self.indices = indptr, indices
        self.rng = np.random.default_rng(seed)

    def sample(self, seeds, fanout):
        picks = [
            self.rng.choice(self.indices[self.indptr[s]:self.indptr[s + 1]], fanout) for s in seeds
        ]
        return np.concatenate([seeds, np.concatenate(picks)])


def train_epoch(model, optimizer, gatherer, sampler, seed_batches, labels):
    total = torch.zeros((), device=gatherer.device)
    for seeds in seed_batches:
        rows = sampler.sample(seeds, fanout=10)
        x = gatherer.fetch(rows)
        target = labels[torch.from_numpy(seeds)].pin_memory().to(gatherer.device, non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x)[: len(seeds)], target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item()
