"""Batch feeder whose pinned slots are returned by a stream callback."""
import queue
import threading

import cupy as cp
import numpy as np
import torch
import torch.nn as nn


class CallbackFeeder:
    def __init__(self, batch, dim, slots=3):
        self.stream = torch.cuda.Stream()
        self.external = cp.cuda.ExternalStream(self.stream.cuda_stream)
        self.free, self.filled = queue.Queue(), queue.Queue()
        for _ in range(slots):
            self.free.put(torch.empty(batch, dim, pin_memory=True))
        self.worker = threading.Thread(target=self._fill, daemon=True)
        self.worker.start()

    def _fill(self):
        rng = np.random.default_rng(0)
        while True:
            slot = self.free.get()
            rng.standard_normal(out=slot.numpy(), dtype=np.float32)
            self.filled.put(slot)

    def next(self):
        slot = self.filled.get()
        with torch.cuda.stream(self.stream):
            x = slot.to("cuda", non_blocking=True)
        self.external.launch_host_func(self.free.put, slot)
        main = torch.cuda.current_stream()
        main.wait_stream(self.stream)
        x.record_stream(main)
        return x


def main():
    feeder = CallbackFeeder(batch=512, dim=1024)
    model = nn.Sequential(nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 1024)).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(1000):
        x = feeder.next()
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
