"""Reader thread, pinned buffers and a recycler that hands them back."""
import queue
import threading

import numpy as np
import torch
import torch.nn as nn


class BufferCycle:
    def __init__(self, shape, count=4):
        self.free, self.full, self.retired = queue.Queue(), queue.Queue(), queue.Queue()
        for _ in range(count):
            self.free.put(torch.empty(shape, pin_memory=True))


def read_records(cycle, path, steps):
    records = np.load(path, mmap_mode="r")
    rng = np.random.default_rng(1)
    for _ in range(steps):
        buffer = cycle.free.get()
        picks = np.sort(rng.choice(len(records), size=buffer.shape[0], replace=False))
        np.copyto(buffer.numpy(), records[picks])
        cycle.full.put(buffer)
    cycle.full.put(None)


def recycle(cycle):
    while True:
        item = cycle.retired.get()
        if item is None:
            return
        buffer, copied = item
        copied.synchronize()
        cycle.free.put(buffer)


def train(path, steps=1000, batch=256, width=2048):
    cycle = BufferCycle((batch, width))
    workers = [threading.Thread(target=read_records, args=(cycle, path, steps)),
               threading.Thread(target=recycle, args=(cycle,))]
    for w in workers:
        w.start()
    model = nn.Sequential(nn.Linear(width, 512), nn.ReLU(), nn.Linear(512, width)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        buffer = cycle.full.get()
        if buffer is None:
            break
        x = buffer.to("cuda", non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        cycle.retired.put((buffer, copied))
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    cycle.retired.put(None)
    for w in workers:
        w.join()
    return loss.item()


if __name__ == "__main__":
    print(train("records.npy"))
