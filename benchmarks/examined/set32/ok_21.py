"""Frame archive: upload, describe, then keep raw frame and descriptor together."""
import queue
import threading

import numpy as np
import torch


class Slot:
    def __init__(self, shape, device):
        self.host = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.frame = torch.empty(shape, dtype=torch.uint8, device=device)
        self.uploaded = torch.cuda.Event()
        self.described = torch.cuda.Event()
        self.done = torch.cuda.Event()


class Archive:
    def __init__(self, net, shape, capacity, device="cuda", depth=3):
        self.net = net.to(device).eval()
        self.device = torch.device(device)
        self.raw = torch.zeros((capacity,) + tuple(shape), dtype=torch.uint8, device=device)
        self.vec = torch.zeros(capacity, 128, device=device)
        self.upload = torch.cuda.Stream(device)
        self.feature = torch.cuda.Stream(device)
        self.store = torch.cuda.Stream(device)
        self.free = queue.Queue()
        for _ in range(depth):
            self.free.put(Slot(shape, device))
        self.count = 0
        self.lock = threading.Lock()
        torch.cuda.synchronize(self.device)

    @torch.no_grad()
    def add(self, frame: np.ndarray):
        slot = self.free.get()
        slot.done.synchronize()
        slot.host.copy_(torch.from_numpy(frame))
        with self.lock:
            row = self.count
            self.count += 1
            with torch.cuda.stream(self.upload):
                self.upload.wait_event(slot.done)
                slot.frame.copy_(slot.host, non_blocking=True)
                slot.uploaded.record()
            with torch.cuda.stream(self.feature):
                self.feature.wait_event(slot.uploaded)
                vec = self.net(slot.frame.float().div_(255).unsqueeze(0))[0]
                slot.described.record()
            with torch.cuda.stream(self.store):
                self.store.wait_event(slot.described)
                self.raw[row].copy_(slot.frame)
                self.vec[row].copy_(vec)
                vec.record_stream(self.store)
                slot.done.record()
        self.free.put(slot)
        return row

    def snapshot(self):
        with self.lock:
            n = self.count
            torch.cuda.current_stream(self.device).wait_stream(self.store)
            return self.raw[:n].clone(), self.vec[:n].clone()


def describe(folder_iter, net, shape):
    archive = Archive(net, shape, capacity=10_000)
    for frame in folder_iter:
        archive.add(frame)
    return archive.snapshot()
