"""Prefill side of a disaggregated cache: extract KV chunks and push them to a peer window."""
import queue
import threading
from dataclasses import dataclass

import torch


@dataclass
class MemoryObj:
    key: int
    tensor: torch.Tensor


class Arena:
    def __init__(self, n, tokens, hidden, device):
        pin = device == "cpu"
        self.base = torch.empty((n, tokens, hidden), dtype=torch.float16, device=device, pin_memory=pin)
        self.used = 0

    def allocate(self, key):
        obj = MemoryObj(key, self.base[self.used])
        self.used += 1
        return obj


class PagedConnector:
    def __init__(self, kvcache, device):
        self.kvcache = kvcache
        self.store_stream = torch.cuda.Stream(device=device)

    def from_gpu(self, obj, slot_mapping):
        self.store_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.store_stream):
            rows = self.kvcache.index_select(0, slot_mapping)
            obj.tensor.copy_(rows, non_blocking=True)
        if obj.tensor.device.type != "cuda":
            self.store_stream.synchronize()
        slot_mapping.record_stream(self.store_stream)
        return obj


class PeerSender(threading.Thread):
    def __init__(self, window, device):
        super().__init__(daemon=True)
        self.window = window
        self.device = device
        self.tasks = queue.Queue()
        self.stream = torch.cuda.Stream(device=device)
        self.acked = []

    def submit(self, objs):
        self.tasks.put(list(objs))

    def close(self):
        self.tasks.put(None)
        self.join()

    def run(self):
        torch.cuda.set_device(self.device)
        while True:
            objs = self.tasks.get()
            if objs is None:
                break
            with torch.cuda.stream(self.stream):
                for obj in objs:
                    self.window[obj.key].copy_(obj.tensor, non_blocking=True)
            self.stream.synchronize()
            self.acked.extend(o.key for o in objs)


class Engine:
    def __init__(self, connector, arena, sender, chunk):
        self.connector = connector
        self.arena = arena
        self.sender = sender
        self.chunk = chunk

    def store(self, first_key, slots):
        objs = []
        for i, part in enumerate(slots.split(self.chunk)):
            obj = self.arena.allocate(first_key + i)
            objs.append(self.connector.from_gpu(obj, part))
        torch.cuda.current_stream().wait_stream(self.connector.store_stream)
        self.sender.submit(objs)
        return len(objs)


def main(buffer_device="cuda"):
    device = torch.device("cuda", 0)
    hidden, chunk, requests = 2048, 256, 4
    kv = torch.zeros(8192, hidden, dtype=torch.float16, device=device)
    window = torch.empty(requests * 8, chunk, hidden, dtype=torch.float16, device=device)
    arena = Arena(requests * 8, chunk, hidden, buffer_device)
    torch.cuda.synchronize()
    sender = PeerSender(window, device)
    sender.start()
    engine = Engine(PagedConnector(kv, device), arena, sender, chunk)
    key = 0
    for r in range(requests):
        slots = torch.randperm(8192, device=device)[: 8 * chunk]
        kv.index_fill_(0, slots, float(r))
        key += engine.store(key, slots)
    sender.close()
    torch.cuda.synchronize()
    print(len(sender.acked), window.float().mean().item())


if __name__ == "__main__":
    main()
