"""Pinned double-buffered staging for checkpoint uploads."""
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

CHUNK = 64 << 20


class StagingSlot:
    def __init__(self, nbytes):
        self.host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self.view = self.host.numpy()
        self.event = torch.cuda.Event()
        self.in_flight = False

    def acquire(self):
        if self.in_flight:
            self.event.synchronize()
            self.in_flight = False
        return self.view


class WeightStager:
    def __init__(self, device, chunk=CHUNK, readers=4):
        self.device = device
        self.chunk = chunk
        self.load_stream = torch.cuda.Stream(device=device)
        self.slots = [StagingSlot(chunk), StagingSlot(chunk)]
        self.cur = 0
        self.pool = ThreadPoolExecutor(readers)
        self.readers = readers

    def _fill(self, view, fd, offset, nbytes):
        part = (nbytes + self.readers - 1) // self.readers

        def read(i):
            lo, hi = i * part, min((i + 1) * part, nbytes)
            if lo < hi:
                os.preadv(fd, [memoryview(view[lo:hi])], offset + lo)

        list(self.pool.map(read, range(self.readers)))

    def upload(self, fd, offset, dst):
        flat = dst.view(-1).view(torch.uint8)
        total = flat.numel()
        done = 0
        while done < total:
            n = min(self.chunk, total - done)
            slot = self.slots[self.cur]
            view = slot.acquire()
            self._fill(view, fd, offset + done, n)
            with torch.cuda.stream(self.load_stream):
                flat[done:done + n].copy_(slot.host[:n], non_blocking=True)
                slot.event.record(self.load_stream)
            slot.in_flight = True
            self.cur ^= 1
            done += n

    def finish(self):
        torch.cuda.current_stream(self.device).wait_stream(self.load_stream)
        for slot in self.slots:
            slot.acquire()
        self.pool.shutdown()


class StagedWeightLoader:
    def __init__(self, path, index, device):
        self.fd = os.open(path, os.O_RDONLY)
        self.index = index
        self.device = device
        self.stager = WeightStager(device)

    def _allocate(self, rows, cols):
        dst = torch.empty(rows, cols, dtype=torch.bfloat16, device=self.device)
        self.stager.load_stream.wait_stream(torch.cuda.current_stream(self.device))
        return dst

    def matrix(self, name, rows, cols):
        dst = self._allocate(rows, cols)
        self.stager.upload(self.fd, self.index[name], dst)
        return dst

    def fused_rows(self, names, rows, cols):
        dst = self._allocate(sum(rows), cols)
        at = 0
        for name, r in zip(names, rows):
            self.stager.upload(self.fd, self.index[name], dst[at:at + r])
            at += r
        return dst

    def close(self):
        self.stager.finish()
        os.close(self.fd)


def load_layer(path, index, hidden, kv, device=torch.device("cuda", 0)):
    loader = StagedWeightLoader(path, index, device)
    qkv = loader.fused_rows(("q", "k", "v"), (hidden, kv, kv), hidden)
    out = loader.matrix("o", hidden, hidden)
    loader.close()
    qkv.mul_(1.0 / np.sqrt(hidden))
    return qkv, out
