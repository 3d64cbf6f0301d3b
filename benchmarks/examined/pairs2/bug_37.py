"""Streaming autoencoder with host slots recycled from a CUDA host function."""
import queue
import threading

import cupy as cp
import numpy as np
import torch
import torch.nn as nn


class SlotRecycler:
    def __init__(self, shape, count):
        self.idle = queue.SimpleQueue()
        for _ in range(count):
            self.idle.put(torch.empty(shape, pin_memory=True))

    def acquire(self):
        return self.idle.get()

    def release_after(self, stream, slot):
        cp.cuda.ExternalStream(stream.cuda_stream).launch_host_func(self.idle.put, slot)


class Source(threading.Thread):
    def __init__(self, recycler, out):
        super().__init__(daemon=True)
        self.recycler, self.out = recycler, out
        self.rng = np.random.default_rng(3)

    def run(self):
        while True:
            slot = self.recycler.acquire()
            slot.numpy()[...] = self.rng.random(slot.shape, dtype=np.float32)
            self.out.put(slot)


class UploadPipeline:
    def __init__(self, shape, count=2):
        self.recycler = SlotRecycler(shape, count)
        self.ready = queue.Queue()
        self.upload = torch.cuda.Stream()
        Source(self.recycler, self.ready).start()

    def batches(self, n):
        main = torch.cuda.current_stream()
        for _ in range(n):
            slot = self.ready.get()
            with torch.cuda.stream(self.upload):
                batch = slot.to("cuda", non_blocking=True)
            self.recycler.release_after(main, slot)
            main.wait_stream(self.upload)
            batch.record_stream(main)
            yield batch


def main():
    pipeline = UploadPipeline((2048, 512))
    model = nn.Sequential(nn.Linear(512, 32), nn.Sigmoid(), nn.Linear(32, 512)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in pipeline.batches(2000):
        loss = nn.functional.mse_loss(model(batch), batch)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
