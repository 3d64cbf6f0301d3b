"""Paged KV store with a background host tier."""
from collections import deque
from dataclasses import dataclass, field

import torch


@dataclass
class Transfer:
    key: int
    gpu_block: int
    cpu_block: int
    event: torch.cuda.Event


@dataclass
class HostTier:
    num_blocks: int
    block_shape: tuple
    resident: dict = field(default_factory=dict)

    def __post_init__(self):
        self.buf = torch.empty((self.num_blocks, *self.block_shape), dtype=torch.float16, pin_memory=True)
        self.free = deque(range(self.num_blocks))


class OffloadWorker:
    def __init__(self, num_gpu: int, num_cpu: int, block_shape: tuple, device: torch.device):
        self.kv = torch.zeros((num_gpu, *block_shape), dtype=torch.float16, device=device)
        self.host = HostTier(num_cpu, block_shape)
        self.free_gpu = deque(range(num_gpu))
        low, _ = torch.cuda.Stream.priority_range()
        self.store_stream = torch.cuda.Stream(device, priority=low)
        self.load_stream = torch.cuda.Stream(device, priority=low)
        self.compute_done = torch.cuda.Event()
        self.stores: deque[Transfer] = deque()

    def step(self, to_store: list[tuple[int, int]], to_load: list[int]) -> dict[int, int]:
        """Submit the transfers of one scheduler step; returns key -> gpu block."""
        self.poll()
        self.compute_done.record()
        self._submit_stores(to_store)
        return self._submit_loads(to_load)

    def _submit_stores(self, pairs):
        self.store_stream.wait_event(self.compute_done)
        with torch.cuda.stream(self.store_stream):
            for key, block in pairs:
                slot = self.host.free.popleft()
                self.host.buf[slot].copy_(self.kv[block], non_blocking=True)
                ev = torch.cuda.Event()
                ev.record()
                self.stores.append(Transfer(key, block, slot, ev))

    def _submit_loads(self, keys):
        placed = {}
        self.load_stream.wait_event(self.compute_done)
        with torch.cuda.stream(self.load_stream):
            for key in keys:
                if key not in self.host.resident:
                    continue
                block = self.free_gpu.popleft()
                self.kv[block].copy_(self.host.buf[self.host.resident[key]], non_blocking=True)
                placed[key] = block
            loaded = torch.cuda.Event()
            loaded.record()
        torch.cuda.current_stream().wait_event(loaded)
        return placed

    def poll(self):
        while self.stores and self.stores[0].event.query():
            done = self.stores.popleft()
            self.host.resident[done.key] = done.cpu_block
            self.free_gpu.append(done.gpu_block)


def run(worker: OffloadWorker, steps: int):
    active = {}
    for step in range(steps):
        worker.poll()
        if worker.free_gpu:
            block = worker.free_gpu.popleft()
            worker.kv[block].fill_(step)
            active[step] = block
        victims = [(k, active.pop(k)) for k in list(active)[:1]] if len(active) > 4 else []
        victims = [v for v in victims if worker.host.free]
        wanted = [step - 16] if step % 8 == 0 and worker.free_gpu else []
        back = worker.step(victims, wanted)
        for key, block in back.items():
            worker.kv[block].mul_(2)
            active[key + 100000] = block


if __name__ == "__main__":
    run(OffloadWorker(64, 4096, (2, 16, 8, 64), torch.device("cuda")), 512)
    torch.cuda.synchronize()
