import threading
from collections import deque

import torch


class Shelf:
    """A blocking list with two ends."""

    def __init__(self):
        self.items = deque()
        self.some = threading.Semaphore(0)

    def put(self, item):
        self.items.append(item)
        self.some.release()

    def pop(self):
        self.some.acquire()
        return self.items.popleft()


class Page:
    def __init__(self, shape):
        self.host = torch.empty(shape).pin_memory()
        self.dev = torch.empty(shape, device="cuda")
        self.loaded = torch.cuda.Event()
        self.used = torch.cuda.Event()
        self.used.record()


def producer(empty, full, count):
    lane = torch.cuda.Stream()
    for n in range(count):
        page = empty.pop()
        page.loaded.synchronize()
        page.host.fill_(float(n))
        lane.wait_event(page.used)
        with torch.cuda.stream(lane):
            page.dev.copy_(page.host, non_blocking=True)
            page.loaded.record()
        full.put(page)
    full.put(None)


def consumer(empty, full, weight):
    stats = []
    while (page := full.pop()) is not None:
        torch.cuda.current_stream().wait_event(page.loaded)
        stats.append((page.dev @ weight).mean())
        page.used.record()
        empty.put(page)
    return torch.stack(stats)


def main():
    shape = (512, 512)
    weight = torch.randn(512, 512, device="cuda")
    empty, full = Shelf(), Shelf()
    for _ in range(3):
        empty.put(Page(shape))
    t = threading.Thread(target=producer, args=(empty, full, 24))
    t.start()
    stats = consumer(empty, full, weight)
    t.join()
    print(stats.cpu().tolist())


if __name__ == "__main__":
    main()
