"""Activation dumper: worker threads write page-locked copies to disk."""
import queue
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import torch
from torch import nn


class PinnedPool:
    def __init__(self, count, numel):
        self._free = queue.SimpleQueue()
        for _ in range(count):
            self._free.put(torch.empty(numel, pin_memory=True))

    def take(self):
        return self._free.get()

    def give(self, buf):
        self._free.put(buf)


class ActivationDumper:
    def __init__(self, root, numel, buffers=6, workers=2):
        self.root = root
        self.pool = PinnedPool(buffers, numel)
        self.workers = ThreadPoolExecutor(workers)
        self.futures = []

    def dump(self, name, tensor):
        flat = tensor.detach().reshape(-1)
        buf = self.pool.take()
        view = buf[: flat.numel()]
        view.copy_(flat, non_blocking=True)
        done = torch.cuda.current_stream().record_event()
        self.futures.append(self.workers.submit(self._write, name, buf, view, done))

    def _write(self, name, buf, view, done):
        try:
            done.synchronize()
            np.save(f"{self.root}/{name}.npy", view.numpy())
        finally:
            self.pool.give(buf)

    def close(self):
        wait(self.futures)
        self.workers.shutdown()


def main(root="/tmp"):
    blocks = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(12)).cuda()
    dumper = ActivationDumper(root, 512 * 1024)
    with torch.inference_mode():
        for step in range(20):
            h = torch.randn(512, 1024, device="cuda")
            for i, block in enumerate(blocks):
                h = torch.relu(block(h))
                dumper.dump(f"s{step}_l{i}", h)
    dumper.close()


if __name__ == "__main__":
    main()
