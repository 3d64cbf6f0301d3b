import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class Item:
    index: int
    host: torch.Tensor
    dev: torch.Tensor
    done: torch.cuda.Event

    def acquire(self):
        torch.cuda.current_stream().wait_event(self.done)
        return self.dev


class UploadThread(threading.Thread):
    def __init__(self, source, depth, shape, device="cuda"):
        super().__init__(daemon=True)
        self.source = source
        self.out = queue.Queue()
        self.free = queue.Queue()
        for _ in range(depth):
            host = torch.empty(shape, pin_memory=True)
            self.free.put((host, torch.empty(shape, device=device), ()))

    def run(self):
        stream = torch.cuda.Stream()
        for index, sample in enumerate(self.source):
            host, dev, marks = self.free.get()
            for mark in marks:
                mark.synchronize()
            host.copy_(sample)
            done = torch.cuda.Event()
            with torch.cuda.stream(stream):
                dev.copy_(host, non_blocking=True)
                done.record()
            self.out.put(Item(index, host, dev, done))
        self.out.put(None)

    def recycle(self, item):
        used = torch.cuda.Event()
        used.record()
        self.free.put((item.host, item.dev, (item.done, used)))
