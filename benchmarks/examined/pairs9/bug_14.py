"""Hierarchical KV cache: finished pages are written through to a host pool."""
from dataclasses import dataclass, field

import torch


@dataclass
class WriteTask:
    device_index: list
    host_index: list
    finish: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class HiCacheController:
    def __init__(self, device_pool, host_pages):
        self.device_pool = device_pool
        self.host_pool = torch.empty((host_pages, *device_pool.shape[1:]),
                                     dtype=device_pool.dtype, pin_memory=True)
        self.write_stream = torch.cuda.Stream()
        self.ongoing = []

    def write(self, device_index, host_index):
        task = WriteTask(device_index, host_index)
        with torch.cuda.stream(self.write_stream):
            for d, h in zip(device_index, host_index):
                self.host_pool[h].copy_(self.device_pool[d], non_blocking=True)
            task.finish.record()
        self.ongoing.append(task)

    def check(self):
        done = []
        while self.ongoing and self.ongoing[0].finish.query():
            done.append(self.ongoing.pop(0))
        return done

    def drain(self):
        for task in self.ongoing:
            task.finish.synchronize()
        self.ongoing.clear()


class Engine:
    def __init__(self, pages=128, page=16, heads=8, dim=64):
        self.pool = torch.zeros(pages, page, heads, dim, device="cuda")
        self.controller = HiCacheController(self.pool, pages)
        self.proj = torch.randn(heads * dim, heads * dim, device="cuda")
        torch.cuda.synchronize()

    def forward(self, hidden, page_id):
        kv = torch.tanh(hidden @ self.proj)
        self.pool[page_id].copy_(kv.view(self.pool[page_id].shape))
        return hidden + kv

    def serve(self, n_pages):
        hidden = torch.randn(16, 512, device="cuda")
        for page in range(n_pages):
            hidden = self.forward(hidden, page)
            self.controller.write([page], [page])
            self.controller.check()
        self.controller.drain()
        return self.controller.host_pool[:n_pages]


@torch.inference_mode()
def main():
    engine = Engine()
    backup = engine.serve(64)
    print(backup.abs().mean().item())


if __name__ == "__main__":
    main()
