"""Threaded feature extraction; all workers enqueue on one stream under one lock."""
import queue
import threading

import numpy as np
import torch
from torch import nn


class SharedDevice:
    """Page-locked staging, device scratch and a stream, used by several threads."""

    def __init__(self, model, max_batch, dim, out_dim):
        self.lock = threading.Lock()
        self.stream = torch.cuda.Stream()
        self.model = model
        self.max_batch = max_batch
        self.staging = torch.empty(max_batch, dim, pin_memory=True)
        self.scratch = torch.empty(max_batch, dim, device="cuda")
        self.out_dim = out_dim
        self.staged = torch.cuda.Event()
        torch.cuda.synchronize()

    def submit(self, rows):
        """Returns a page-locked result and the event that marks it complete."""
        n = len(rows)
        if n > self.max_batch:
            raise ValueError("batch too large")
        result = torch.empty(n, self.out_dim, pin_memory=True)
        with self.lock:
            self.staged.synchronize()
            self.staging[:n].copy_(torch.from_numpy(rows))
            with torch.cuda.stream(self.stream):
                self.scratch[:n].copy_(self.staging[:n], non_blocking=True)
                self.staged.record(self.stream)
                features = self.model(self.scratch[:n])
                result.copy_(features, non_blocking=True)
                done = torch.cuda.Event()
                done.record(self.stream)
        return result, done


class Worker(threading.Thread):
    def __init__(self, device, jobs, results):
        super().__init__(daemon=True)
        self.device = device
        self.jobs = jobs
        self.results = results

    def run(self):
        with torch.inference_mode():
            while True:
                job = self.jobs.get()
                if job is None:
                    return
                key, rows = job
                host, done = self.device.submit(rows)
                done.synchronize()
                self.results[key] = host.numpy().copy()


def extract(batches, threads=4):
    dim, out_dim = 512, 128
    model = nn.Sequential(nn.Linear(dim, 4096), nn.GELU(), nn.Linear(4096, out_dim)).cuda().eval()
    device = SharedDevice(model, max(len(b) for b in batches), dim, out_dim)
    jobs, results = queue.Queue(), {}
    workers = [Worker(device, jobs, results) for _ in range(threads)]
    for w in workers:
        w.start()
    for item in enumerate(batches):
        jobs.put(item)
    for _ in workers:
        jobs.put(None)
    for w in workers:
        w.join()
    return [results[i] for i in range(len(batches))]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((rng.integers(16, 1024), 512)).astype(np.float32) for _ in range(64)]
    print(sum(f.sum() for f in extract(data)))
