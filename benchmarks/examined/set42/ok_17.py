"""Reference-counted staging pages whose release is tied to the copy that reads them."""
from collections import deque

import torch


class StagingPage:
    def __init__(self, numel):
        self.tensor = torch.empty(numel, dtype=torch.float16, pin_memory=True)
        self.readers = []

    def read_by(self, event):
        self.readers.append(event)

    def idle(self):
        self.readers = [e for e in self.readers if not e.query()]
        return not self.readers

    def wait_idle(self):
        for event in self.readers:
            event.synchronize()
        self.readers.clear()


class StagingPool:
    """Freed pages go to the back of the line; the oldest page is handed out next."""

    def __init__(self, numel, count):
        self._line = deque(StagingPage(numel) for _ in range(count))

    def allocate(self):
        for _ in range(len(self._line)):
            page = self._line.popleft()
            if page.idle():
                return page
            self._line.append(page)
        page = self._line.popleft()
        page.wait_idle()
        return page

    def free(self, page):
        self._line.append(page)


class Prefetcher:
    def __init__(self, pool, device):
        self.pool = pool
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device)

    def send(self, source, target):
        page = self.pool.allocate()
        staged = page.tensor[: source.numel()]
        staged.copy_(source.view(-1))
        with torch.cuda.stream(self.stream):
            target.view(-1).copy_(staged, non_blocking=True)
            page.read_by(self.stream.record_event())
        self.pool.free(page)


class ChunkStore:
    def __init__(self, chunks, shape):
        self.chunks = [torch.randn(shape).half() for _ in range(chunks)]

    def __iter__(self):
        return iter(self.chunks)


class Replayer:
    def __init__(self, shape, slots, device):
        self.device = torch.device(device)
        self.targets = [torch.empty(shape, dtype=torch.float16, device=device)
                        for _ in range(slots)]
        numel = self.targets[0].numel()
        self.prefetcher = Prefetcher(StagingPool(numel, 3), device)

    def load(self, store):
        current = torch.cuda.current_stream(self.device)
        self.prefetcher.stream.wait_stream(current)
        for target, chunk in zip(self.targets, store):
            self.prefetcher.send(chunk, target)
        current.wait_stream(self.prefetcher.stream)
        return torch.stack([t.float().mean() for t in self.targets])


def main():
    store = ChunkStore(12, (2, 128, 512))
    replayer = Replayer((2, 128, 512), 12, "cuda:0")
    for _ in range(5):
        means = replayer.load(store)
    print(means.cpu())


if __name__ == "__main__":
    main()
