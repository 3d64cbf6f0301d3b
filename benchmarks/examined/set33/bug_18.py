"""Online feature table: one thread applies updates, several threads answer look-ups."""
import queue
import threading

import torch


class SharedTable:
    """Table on the GPU, used by several threads under one lock."""

    def __init__(self, rows, dim, device="cuda:0"):
        self.device = torch.device(device)
        self.values = torch.zeros((rows, dim), device=self.device)
        self.version = 0
        self.lock = threading.Lock()
        torch.cuda.synchronize(self.device)


class Updater(threading.Thread):
    def __init__(self, table, source):
        super().__init__(name="updater", daemon=True)
        self.table, self.source = table, source
        self.stream = torch.cuda.Stream(table.device)

    def _apply(self, ids, grads, lr):
        table = self.table
        rows = table.values.index_select(0, ids)
        norm = grads.norm(dim=1, keepdim=True).clamp_min(1.0)
        rows = torch.nn.functional.normalize(rows - lr * grads / norm, dim=1)
        table.values.index_copy_(0, ids, rows)

    def run(self):
        torch.cuda.set_device(self.table.device)
        with torch.cuda.stream(self.stream):
            while True:
                item = self.source.get()
                if item is None:
                    break
                ids = torch.from_numpy(item["ids"]).to(self.table.device)
                grads = torch.from_numpy(item["grads"]).to(self.table.device)
                with self.table.lock:
                    self._apply(ids, grads, item["lr"])
                    self.table.version += 1
        self.stream.synchronize()


class Reader(threading.Thread):
    def __init__(self, table, requests):
        super().__init__(name="reader", daemon=True)
        self.table, self.requests = table, requests
        self.stream = torch.cuda.Stream(table.device)

    def run(self):
        torch.cuda.set_device(self.table.device)
        with torch.cuda.stream(self.stream):
            while True:
                request = self.requests.get()
                if request is None:
                    break
                ids = torch.from_numpy(request["ids"]).to(self.table.device)
                with self.table.lock:
                    rows = self.table.values.index_select(0, ids).cpu()
                    version = self.table.version
                request["reply"].put((version, rows.numpy()))


class FeatureService:
    def __init__(self, rows=1_000_000, dim=64, readers=2):
        self.table = SharedTable(rows, dim)
        self.updates, self.requests = queue.Queue(), queue.Queue()
        self.threads = [Updater(self.table, self.updates)]
        self.threads += [Reader(self.table, self.requests) for _ in range(readers)]
        for t in self.threads:
            t.start()

    def update(self, ids, grads, lr=0.05):
        self.updates.put({"ids": ids, "grads": grads, "lr": lr})

    def lookup(self, ids):
        reply = queue.Queue(maxsize=1)
        self.requests.put({"ids": ids, "reply": reply})
        return reply.get()

    def close(self):
        self.updates.put(None)
        for _ in self.threads[1:]:
            self.requests.put(None)
        for t in self.threads:
            t.join()
