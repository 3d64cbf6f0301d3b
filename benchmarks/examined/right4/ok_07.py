import queue
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch


class PinnedPool:
    def __init__(self, count, numel):
        self.free = queue.SimpleQueue()
        self.busy = []
        for _ in range(count):
            self.free.put(torch.empty(numel, dtype=torch.float32, pin_memory=True))

    def retire(self, buf, event):
        self.busy.append((buf, event))

    def _reap(self, block):
        still = []
        for buf, event in self.busy:
            if block:
                event.synchronize()
                block = False
            if event.query():
                self.free.put(buf)
            else:
                still.append((buf, event))
        self.busy = still

    def acquire(self):
        self._reap(block=False)
        if self.free.empty():
            self._reap(block=True)
        return self.free.get()


class TensorFile:
    def __init__(self, path, numel):
        self.path, self.numel = path, numel

    def read_into(self, buf):
        view = buf.numpy()[: self.numel]
        view[:] = np.fromfile(self.path, dtype=np.float32, count=self.numel)
        return buf


class StateSwapper:
    def __init__(self, files, numel, readers=2):
        self.files = files
        self.pool = PinnedPool(4, numel)
        self.readers = ThreadPoolExecutor(readers)
        self.upload = torch.cuda.Stream()
        self.futures = {}

    def prefetch(self, name):
        if name not in self.futures:
            buf = self.pool.acquire()
            self.futures[name] = self.readers.submit(self.files[name].read_into, buf)

    def swap_in(self, name):
        self.prefetch(name)
        buf = self.futures.pop(name).result()
        numel = self.files[name].numel
        with torch.cuda.stream(self.upload):
            dev = buf[:numel].to("cuda", non_blocking=True)
            done = self.upload.record_event()
        self.pool.retire(buf, done)
        current = torch.cuda.current_stream()
        current.wait_event(done)
        dev.record_stream(current)
        return dev


def apply_all(swapper, params, order, lr):
    for i, name in enumerate(order):
        state = swapper.swap_in(name)
        if i + 1 < len(order):
            swapper.prefetch(order[i + 1])
        params[name].data.view(-1).add_(state, alpha=-lr)
        del state
