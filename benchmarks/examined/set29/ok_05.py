"""Expert paging from disk: reader thread, page-locked ring, copy stream, device slots."""
from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import torch


@dataclass
class StagingSlot:
    host: torch.Tensor
    drained: torch.cuda.Event = field(default_factory=torch.cuda.Event)


@dataclass
class DeviceSlot:
    weight: torch.Tensor
    ready: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    last_use: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class ExpertReader(threading.Thread):
    """Fills a staging slot from the file and passes it on; waits for the slot's upload first."""

    def __init__(self, path: str, shape: tuple[int, int], depth: int) -> None:
        super().__init__(daemon=True)
        self.file = np.memmap(path, dtype=np.float16, mode="r").reshape(-1, *shape)
        self.free: queue.Queue[StagingSlot] = queue.Queue()
        self.requests: queue.Queue[int | None] = queue.Queue()
        self.filled: queue.Queue[tuple[int, StagingSlot]] = queue.Queue()
        for _ in range(depth):
            self.free.put(StagingSlot(torch.empty(shape, dtype=torch.float16, pin_memory=True)))

    def run(self) -> None:
        while (expert := self.requests.get()) is not None:
            slot = self.free.get()
            slot.drained.synchronize()
            np.copyto(slot.host.numpy(), self.file[expert])
            self.filled.put((expert, slot))


class ExpertCache:
    def __init__(self, path: str, shape: tuple[int, int], num_slots: int) -> None:
        self.reader = ExpertReader(path, shape, depth=3)
        self.reader.start()
        self.copy_stream = torch.cuda.Stream()
        self.unused = [
            DeviceSlot(torch.empty(shape, dtype=torch.float16, device="cuda"))
            for _ in range(num_slots)
        ]
        self.resident: OrderedDict[int, DeviceSlot] = OrderedDict()
        self.copy_stream.wait_stream(torch.cuda.current_stream())

    def load(self, experts: list[int]) -> None:
        missing = [e for e in experts if e not in self.resident]
        for e in experts:
            if e in self.resident:
                self.resident.move_to_end(e)
        for e in missing:
            self.reader.requests.put(e)
        for _ in missing:
            expert, staged = self.reader.filled.get()
            if self.unused:
                target = self.unused.pop()
            else:
                _, target = self.resident.popitem(last=False)
            with torch.cuda.stream(self.copy_stream):
                self.copy_stream.wait_event(target.last_use)
                target.weight.copy_(staged.host, non_blocking=True)
                target.ready.record()
                staged.drained.record()
            self.reader.free.put(staged)
            self.resident[expert] = target

    def matmul(self, expert: int, x: torch.Tensor) -> torch.Tensor:
        slot = self.resident[expert]
        torch.cuda.current_stream().wait_event(slot.ready)
        out = x @ slot.weight
        slot.last_use.record()
        return out

    def close(self) -> None:
        self.reader.requests.put(None)
        self.reader.join()


@torch.inference_mode()
def decode(cache: ExpertCache, routes: list[list[int]], x: torch.Tensor) -> torch.Tensor:
    for experts in routes:
        cache.load(experts)
        x = torch.tanh(sum(cache.matmul(e, x) for e in experts) / len(experts))
    return x


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    dim, total = 1024, 32
    rng.standard_normal((total, dim, dim), dtype=np.float32).astype(np.float16).tofile("/tmp/experts.bin")
    cache = ExpertCache("/tmp/experts.bin", (dim, dim), num_slots=8)
    plan = [rng.choice(total, 4, replace=False).tolist() for _ in range(64)]
    print(decode(cache, plan, torch.randn(4, dim, device="cuda").half()).float().sum().item())
    cache.close()
