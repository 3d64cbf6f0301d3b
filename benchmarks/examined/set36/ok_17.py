"""KV pages are taken from a table and saved by a thread."""
import queue
import threading

import torch
import torch.nn as nn


class PageTable:
    def __init__(self, count):
        self.pages = queue.Queue()
        for i in range(count):
            self.pages.put(i)

    def take(self, n):
        return [self.pages.get() for _ in range(n)]

    def put(self, ids):
        for i in ids:
            self.pages.put(i)


class PageSaver(threading.Thread):
    def __init__(self, pool, table, max_pages, device):
        super().__init__(daemon=True)
        self.pool, self.table, self.device = pool, table, device
        self.stream = torch.cuda.Stream(device)
        self.host = torch.empty((max_pages, *pool.shape[1:]), dtype=pool.dtype, pin_memory=True)
        self.jobs = queue.Queue()
        self.store = {}

    def submit(self, key, ids, written):
        self.jobs.put((key, ids, written))

    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            while True:
                job = self.jobs.get()
                if job is None:
                    return
                key, ids, written = job
                self.stream.wait_event(written)
                for row, page in enumerate(ids):
                    self.host[row].copy_(self.pool[page], non_blocking=True)
                self.stream.synchronize()
                self.store[key] = self.host[: len(ids)].clone()
                self.table.put(ids)


class PrefillWorker:
    def __init__(self, hidden, pages, page_size, device="cuda:0"):
        self.device = torch.device(device)
        self.page_size = page_size
        self.layer = nn.Linear(hidden, hidden).to(self.device).eval()
        self.pool = torch.zeros(pages, page_size, hidden, device=self.device)
        torch.cuda.synchronize(self.device)
        self.table = PageTable(pages)
        self.saver = PageSaver(self.pool, self.table, pages, self.device)
        self.saver.start()

    @torch.no_grad()
    def prefill(self, key, states):
        """states: (n * page_size, hidden) device tensor of the current stream."""
        n = states.shape[0] // self.page_size
        ids = self.table.take(n)
        kv = self.layer(states).view(n, self.page_size, -1)
        for row, page in enumerate(ids):
            self.pool[page].copy_(kv[row])
        written = torch.cuda.current_stream(self.device).record_event()
        self.saver.submit(key, ids, written)
        return kv[-1, -1]

    def close(self):
        self.saver.jobs.put(None)
        self.saver.join()
        return self.saver.store


if __name__ == "__main__":
    worker = PrefillWorker(512, pages=32, page_size=64)
    for i in range(40):
        worker.prefill(i, torch.randn(8 * 64, 512, device="cuda"))
    print(len(worker.close()))
