import queue
import threading

import torch


class PagedCache:
    def __init__(self, pages, page_tokens, width, device="cuda"):
        self.data = torch.zeros(pages, page_tokens, width, dtype=torch.float16, device=device)

    def write(self, page_ids, values):
        self.data.index_copy_(0, page_ids, values)


class SaveWorker:
    def __init__(self, cache):
        self.cache = cache
        self.pack_stream = torch.cuda.Stream()
        self.requests = queue.Queue()
        self.store = {}
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def submit(self, key, page_ids):
        self.requests.put((key, page_ids))

    def _loop(self):
        while True:
            item = self.requests.get()
            if item is None:
                return
            self._save(*item)

    def _save(self, key, page_ids):
        with torch.cuda.stream(self.pack_stream):
            idx = torch.tensor(page_ids, device="cuda")
            packed = self.cache.data.index_select(0, idx)
            host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
            host.copy_(packed, non_blocking=True)
        self.pack_stream.synchronize()
        self.store[key] = host

    def close(self):
        self.requests.put(None)
        self.thread.join()


class Runner:
    def __init__(self, width=1024):
        self.proj = torch.nn.Linear(width, width, device="cuda", dtype=torch.float16)
        self.cache = PagedCache(512, 16, width)
        self.saver = SaveWorker(self.cache)

    @torch.no_grad()
    def step(self, request_id, hidden, page_ids):
        kv = self.proj(hidden)
        ids = torch.tensor(page_ids).pin_memory().to("cuda", non_blocking=True)
        self.cache.write(ids, kv)
        self.saver.submit(request_id, page_ids)


def main():
    runner = Runner()
    for i in range(8):
        hidden = torch.randn(4, 16, 1024, device="cuda", dtype=torch.float16)
        runner.step(f"r{i}", hidden, list(range(4 * i, 4 * i + 4)))
    runner.saver.close()
    print(len(runner.saver.store))


if __name__ == "__main__":
    main()
