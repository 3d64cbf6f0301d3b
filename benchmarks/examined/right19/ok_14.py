import collections
import queue
import threading

import numpy as np
import torch


class Page:
    def __init__(self, rows, cols):
        self.tensor = torch.empty(rows, cols, pin_memory=True)
        self.array = self.tensor.numpy()
        self.mark = torch.cuda.Event()
        self.rows = 0
        self.key = None


class Reader(threading.Thread):
    def __init__(self, keys, free, ready):
        super().__init__(daemon=True)
        self.keys = keys
        self.free = free
        self.ready = ready

    def run(self):
        while True:
            try:
                key = self.keys.get_nowait()
            except queue.Empty:
                self.ready.put(None)
                return
            page = self.free.get()
            rng = np.random.default_rng(key)
            page.rows = int(rng.integers(1, page.array.shape[0] + 1))
            page.array[:page.rows] = rng.standard_normal((page.rows, page.array.shape[1]), dtype=np.float32)
            page.key = key
            self.ready.put(page)


class Uploader:
    def __init__(self, free):
        self.free = free
        self.stream = torch.cuda.Stream()
        self.flight = collections.deque()

    def upload(self, page):
        with torch.cuda.stream(self.stream):
            block = page.tensor[:page.rows].to("cuda", non_blocking=True)
            page.mark.record(self.stream)
        self.flight.append(page)
        here = torch.cuda.current_stream()
        here.wait_event(page.mark)
        block.record_stream(here)
        return block

    def reclaim(self, limit):
        while self.flight and self.flight[0].mark.query():
            self.free.put(self.flight.popleft())
        while len(self.flight) > limit:
            page = self.flight.popleft()
            page.mark.synchronize()
            self.free.put(page)


def knn_sweep(n_keys=500, readers=3, pages=8, k=5):
    cols = 96
    keys, free, ready = queue.Queue(), queue.Queue(), queue.Queue()
    for key in range(n_keys):
        keys.put(key)
    for _ in range(pages):
        free.put(Page(1024, cols))
    threads = [Reader(keys, free, ready) for _ in range(readers)]
    for t in threads:
        t.start()

    torch.manual_seed(0)
    queries = torch.randn(256, cols, device="cuda")
    best_d = torch.full((256, k), float("inf"), device="cuda")
    best_i = torch.full((256, k), -1, dtype=torch.long, device="cuda")
    uploader = Uploader(free)

    open_readers = readers
    while open_readers:
        page = ready.get()
        if page is None:
            open_readers -= 1
            continue
        key = page.key
        block = uploader.upload(page)
        uploader.reclaim(limit=pages // 2)
        dist = torch.cdist(queries, block)
        ids = torch.arange(block.size(0), device="cuda").add_(key << 16).expand_as(dist)
        cat_d = torch.cat([best_d, dist], dim=1)
        cat_i = torch.cat([best_i, ids], dim=1)
        best_d, pick = cat_d.topk(k, dim=1, largest=False)
        best_i = cat_i.gather(1, pick)
    uploader.reclaim(limit=0)
    for t in threads:
        t.join()
    return best_d.cpu(), best_i.cpu()


if __name__ == "__main__":
    d, i = knn_sweep()
    print(d[:, 0].mean().item(), (i >> 16).unique().numel())
