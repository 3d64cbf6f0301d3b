"""Page-locked block cache; released blocks stay in quarantine until their copies are done."""
import threading
from collections import defaultdict, deque

import numpy as np
import torch


def _round_up(nbytes):
    size = 4096
    while size < nbytes:
        size *= 2
    return size


class HostBlockCache:
    def __init__(self):
        self._lock = threading.Lock()
        self._free = defaultdict(list)
        self._quarantine = deque()
        self.created = 0

    def _reclaim(self):
        waiting = deque()
        while self._quarantine:
            memory, events = self._quarantine.popleft()
            if all(e.query() for e in events):
                self._free[memory.numel()].append(memory)
            else:
                waiting.append((memory, events))
        self._quarantine = waiting

    def get(self, nbytes):
        size = _round_up(nbytes)
        with self._lock:
            self._reclaim()
            if self._free[size]:
                return HostBlock(self, self._free[size].pop())
            self.created += 1
        return HostBlock(self, torch.empty(size, dtype=torch.uint8, pin_memory=True))

    def put(self, memory, events):
        with self._lock:
            self._quarantine.append((memory, events))


class HostBlock:
    def __init__(self, cache, memory):
        self._cache = cache
        self._memory = memory
        self._events = []

    def upload(self, array, device):
        if self._memory is None:
            raise RuntimeError("block was released")
        for event in self._events:
            event.synchronize()
        source = torch.from_numpy(np.ascontiguousarray(array)).reshape(-1).view(torch.uint8)
        staged = self._memory[: source.numel()]
        staged.copy_(source)
        target = torch.empty(source.numel(), dtype=torch.uint8, device=device)
        target.copy_(staged, non_blocking=True)
        self._events = [torch.cuda.current_stream(device).record_event()]
        return target

    def release(self):
        memory, self._memory = self._memory, None
        if memory is not None:
            self._cache.put(memory, self._events)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.release()
        return False


class ShardReader:
    def __init__(self, cache, device="cuda"):
        self.cache = cache
        self.device = torch.device(device)

    def load(self, array):
        with self.cache.get(array.nbytes) as block:
            raw = block.upload(array, self.device)
        dtype = torch.from_numpy(array[:1].reshape(-1)[:1].copy()).dtype
        return raw.view(dtype).view(array.shape)


def worker(cache, arrays, sums, slot):
    reader = ShardReader(cache)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        total = torch.zeros((), dtype=torch.float64, device="cuda")
        for a in arrays:
            x = reader.load(a)
            total += (x.double() @ x.double().t()).diagonal().sum()
        sums[slot] = total.item()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    shards = [[rng.standard_normal((512, 512)).astype(np.float32) for _ in range(20)] for _ in range(4)]
    cache, sums = HostBlockCache(), [0.0] * 4
    threads = [threading.Thread(target=worker, args=(cache, s, sums, i)) for i, s in enumerate(shards)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(sums, cache.created)
