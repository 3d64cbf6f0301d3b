import threading
import weakref

import torch


class Arena:
    def __init__(self, blocks, numel):
        self._free = [torch.empty(numel, pin_memory=True) for _ in range(blocks)]
        self._cond = threading.Condition()

    def take(self):
        with self._cond:
            while not self._free:
                self._cond.wait()
            return self._free.pop()

    def give(self, event, block):
        event.synchronize()
        with self._cond:
            self._free.append(block)
            self._cond.notify()


class Resident:
    """Device copy of a host vector."""

    def __init__(self, tensor, event):
        self._tensor, self._event = tensor, event

    def tensor(self):
        stream = torch.cuda.current_stream()
        stream.wait_event(self._event)
        self._tensor.record_stream(stream)
        return self._tensor


class ResidentCache:
    def __init__(self, source, blocks=4):
        self.source = source
        self.arena = Arena(blocks, source.shape[1])
        self.stream = torch.cuda.Stream()
        self.live = weakref.WeakValueDictionary()

    def get(self, row):
        entry = self.live.get(row)
        if entry is None:
            entry = self.live[row] = self._load(row)
        return entry

    def _load(self, row):
        block = self.arena.take()
        block.copy_(self.source[row])
        with torch.cuda.stream(self.stream):
            dev = block.to("cuda", non_blocking=True)
            event = self.stream.record_event()
        entry = Resident(dev, event)
        weakref.finalize(entry, self.arena.give, event, block)
        return entry


def dot_all(cache, rows, query):
    scores = []
    for row in rows:
        entry = cache.get(row)
        scores.append(torch.dot(entry.tensor(), query))
    return torch.stack(scores).cpu()


if __name__ == "__main__":
    cache = ResidentCache(torch.randn(10_000, 4096))
    q = torch.randn(4096, device="cuda")
    print(dot_all(cache, [1, 5, 9, 5, 1, 77], q).argmax())
