"""Embedding exporter: shards are written by an executor."""
import collections
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import nn


class HostBuffers:
    def __init__(self, shape, count):
        self.stack = collections.deque(torch.empty(shape, pin_memory=True) for _ in range(count))

    def acquire(self):
        return self.stack.popleft()

    def release(self, buffer):
        self.stack.append(buffer)


def save_shard(path, buffer, event):
    event.synchronize()
    np.save(path, buffer.numpy())
    return path


class Exporter:
    def __init__(self, model, rows, dim, root):
        self.model = model
        self.buffers = HostBuffers((rows, dim), 3)
        self.root = root
        self.jobs = []
        self.executor = ThreadPoolExecutor(max_workers=1)

    @torch.inference_mode()
    def export(self, index, batch):
        vectors = nn.functional.normalize(self.model(batch), dim=-1)
        buffer = self.buffers.acquire()
        try:
            buffer.copy_(vectors, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
            job = self.executor.submit(save_shard, f"{self.root}/shard_{index:04d}.npy", buffer, event)
            self.jobs.append(job)
        finally:
            self.buffers.release(buffer)

    def finish(self):
        paths = [job.result() for job in self.jobs]
        self.executor.shutdown()
        return paths


def main():
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 256)).cuda().eval()
    exporter = Exporter(model, 16384, 256, "/tmp")
    for i in range(64):
        exporter.export(i, torch.randn(16384, 512, device="cuda"))
    print(len(exporter.finish()))


if __name__ == "__main__":
    main()
