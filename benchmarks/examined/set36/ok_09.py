"""Worker threads over a shared pool of device buffers."""
import queue
import threading

import torch
import torch.nn as nn


class EventedPool:
    def __init__(self, shape, device):
        self.shape, self.device = shape, device
        self.lock = threading.Lock()
        self.idle = []

    def acquire(self):
        """Call with the stream current on which the buffer is used first."""
        with self.lock:
            for i, (buffer, event) in enumerate(self.idle):
                if event.query():
                    del self.idle[i]
                    return buffer
        return torch.empty(self.shape, device=self.device)

    def release(self, buffer, event):
        with self.lock:
            self.idle.append((buffer, event))


class Worker(threading.Thread):
    def __init__(self, model, pool, jobs, results, device):
        super().__init__(daemon=True)
        self.model, self.pool, self.jobs, self.results = model, pool, jobs, results
        self.device = device
        self.stream = torch.cuda.Stream(device)

    @torch.inference_mode()
    def run(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            while True:
                job = self.jobs.get()
                if job is None:
                    return
                key, pinned = job
                buffer = self.pool.acquire()
                buffer.copy_(pinned, non_blocking=True)
                vectors = self.model(buffer)
                read = self.stream.record_event()
                self.pool.release(buffer, read)
                host = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
                host.copy_(vectors, non_blocking=True)
                self.results.put((key, host, self.stream.record_event(), pinned))


def embed_all(model, inputs, workers=3, device="cuda:0"):
    """inputs: list of equally shaped pinned tensors."""
    device = torch.device(device)
    model = model.to(device).eval()
    torch.cuda.synchronize(device)
    pool = EventedPool(inputs[0].shape, device)
    jobs, results = queue.Queue(), queue.Queue()
    threads = [Worker(model, pool, jobs, results, device) for _ in range(workers)]
    for t in threads:
        t.start()
    for item in enumerate(inputs):
        jobs.put(item)
    out = [None] * len(inputs)
    for _ in inputs:
        key, host, done, _pinned = results.get()
        done.synchronize()
        out[key] = host.clone()
    for _ in threads:
        jobs.put(None)
    for t in threads:
        t.join()
    return out


if __name__ == "__main__":
    net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 128))
    data = [torch.randn(256, 512).pin_memory() for _ in range(40)]
    print(sum(float(v.sum()) for v in embed_all(net, data)))
