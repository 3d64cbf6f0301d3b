"""Simple CPU offload of finished requests' KV blocks (scheduler and worker in one process)."""
from collections import OrderedDict

import torch


class KVCacheManager:
    def __init__(self, num_blocks, block_size, dim):
        self.tensor = torch.zeros(num_blocks, block_size, dim, device="cuda")
        self.free_ids = list(range(num_blocks))
        self.tables = {}

    def allocate(self, rid, n):
        ids = [self.free_ids.pop() for _ in range(n)]
        self.tables[rid] = ids
        return ids

    def release(self, rid):
        self.free_ids.extend(self.tables.pop(rid))


class CopyBackend:
    def __init__(self, manager, capacity):
        self.manager = manager
        self.cpu = torch.zeros((capacity, *manager.tensor.shape[1:]), pin_memory=True)
        self.store_stream = torch.cuda.Stream()
        self.inflight = OrderedDict()
        self.cursor = 0

    def launch_store(self, rid):
        event = torch.cuda.Event()
        slots = []
        self.store_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.store_stream):
            for block in self.manager.tables[rid]:
                slot = self.cursor % self.cpu.shape[0]
                self.cpu[slot].copy_(self.manager.tensor[block], non_blocking=True)
                slots.append(slot)
                self.cursor += 1
            event.record()
        self.inflight[rid] = (event, slots)

    def completed(self):
        finished = [rid for rid, (event, _) in self.inflight.items() if event.query()]
        return {rid: self.inflight.pop(rid)[1] for rid in finished}

    def flush(self):
        self.store_stream.synchronize()
        return self.completed()


class Scheduler:
    def __init__(self, manager, backend, dim):
        self.manager = manager
        self.backend = backend
        self.weight = torch.randn(dim, dim, device="cuda") / dim ** 0.5
        self.host_index = {}

    def execute(self, rid, hidden):
        for block in self.manager.allocate(rid, 8):
            hidden = torch.tanh(hidden @ self.weight)
            self.manager.tensor[block].copy_(hidden)
        return hidden

    def finish(self, rid):
        self.backend.launch_store(rid)
        self.manager.release(rid)
        self.host_index.update(self.backend.completed())


@torch.inference_mode()
def main():
    dim, block = 1024, 64
    manager = KVCacheManager(16, block, dim)
    scheduler = Scheduler(manager, CopyBackend(manager, 1024), dim)
    for rid in range(100):
        scheduler.execute(rid, torch.randn(block, dim, device="cuda"))
        scheduler.finish(rid)
    scheduler.host_index.update(scheduler.backend.flush())
    print(len(scheduler.host_index), scheduler.backend.cpu.abs().mean().item())


if __name__ == "__main__":
    main()
