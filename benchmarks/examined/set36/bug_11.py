"""Embedding server: worker threads share a pool of device input buffers."""
import collections
import queue
import threading
from concurrent.futures import Future

import torch
import torch.nn as nn


class BufferPool:
    """Keeps device buffers of one shape for reuse."""

    def __init__(self, shape, device):
        self.shape = shape
        self.device = device
        self._lock = threading.Lock()
        self._free = collections.deque()

    def acquire(self):
        with self._lock:
            if self._free:
                return self._free.popleft()
        return torch.empty(self.shape, device=self.device)

    def release(self, buffer):
        with self._lock:
            self._free.appendleft(buffer)


class Worker(threading.Thread):
    def __init__(self, model, pool, requests, responses, device):
        super().__init__(daemon=True)
        self.model, self.pool = model, pool
        self.requests, self.responses = requests, responses
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            item = self.requests.get()
            if item is None:
                return
            pinned, future = item
            self.responses.put((future, *self._launch(pinned)))

    @torch.inference_mode()
    def _launch(self, pinned):
        buffer = self.pool.acquire()
        with torch.cuda.stream(self.stream):
            buffer.copy_(pinned, non_blocking=True)
            vectors = self.model(buffer)
            result = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
            result.copy_(vectors, non_blocking=True)
            done = self.stream.record_event()
        self.pool.release(buffer)
        return result, done, pinned


class Server:
    def __init__(self, model, shape, workers=4, device="cuda:0"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.requests, self.responses = queue.Queue(), queue.Queue()
        self.pool = BufferPool(shape, self.device)
        torch.cuda.synchronize(self.device)
        for _ in range(workers):
            Worker(self.model, self.pool, self.requests, self.responses, self.device).start()
        threading.Thread(target=self._deliver, daemon=True).start()

    def submit(self, pinned):
        future = Future()
        self.requests.put((pinned, future))
        return future

    def _deliver(self):
        while True:
            future, result, done, _pinned = self.responses.get()
            done.synchronize()
            future.set_result(result.numpy().copy())


if __name__ == "__main__":
    net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 256))
    server = Server(net, (512, 1024))
    futures = [server.submit(torch.randn(512, 1024).pin_memory()) for _ in range(64)]
    print(sum(float(f.result().sum()) for f in futures))
