"""Two tier KV cache: device blocks backed by page-locked host slots."""
from dataclasses import dataclass
from typing import Dict, List, Optional

import torch


@dataclass
class CacheNode:
    key: str
    device_block: Optional[int] = None
    host_slot: Optional[int] = None


class HostPool:
    def __init__(self, slots: int, shape, dtype):
        self.data = torch.empty((slots, *shape), dtype=dtype, pin_memory=True)
        self._free: List[int] = list(range(slots))

    def alloc(self) -> int:
        return self._free.pop()

    def release(self, slot: int):
        self._free.append(slot)


class DevicePool:
    def __init__(self, blocks: int, shape, dtype, device):
        self.data = torch.zeros((blocks, *shape), dtype=dtype, device=device)
        self._free: List[int] = list(range(blocks))

    def alloc(self) -> int:
        return self._free.pop()


class CacheController:
    def __init__(self, host: HostPool, device: DevicePool):
        self.host = host
        self.device = device
        self.load_stream = torch.cuda.Stream()
        self.write_stream = torch.cuda.Stream()
        self.load_events: Dict[str, torch.cuda.Event] = {}

    def load_back(self, node: CacheNode):
        block = self.device.alloc()
        slot = node.host_slot
        self.load_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.load_stream):
            self.device.data[block].copy_(self.host.data[slot], non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        self.load_events[node.key] = done
        node.device_block = block
        node.host_slot = None
        self.host.release(slot)

    def write_through(self, node: CacheNode):
        slot = self.host.alloc()
        self.write_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.write_stream):
            self.host.data[slot].copy_(self.device.data[node.device_block], non_blocking=True)
        node.host_slot = slot

    def wait_loaded(self, node: CacheNode):
        done = self.load_events.pop(node.key, None)
        if done is not None:
            torch.cuda.current_stream().wait_event(done)

    def flush(self):
        self.write_stream.synchronize()


class Engine:
    def __init__(self, shape, device="cuda"):
        self.host = HostPool(8, shape, torch.float16)
        self.device = DevicePool(64, shape, torch.float16, device)
        self.controller = CacheController(self.host, self.device)
        self.weight = torch.randn(shape[-1], shape[-1], dtype=torch.float16, device=device)

    def prefill(self, key: str) -> CacheNode:
        node = CacheNode(key, device_block=self.device.alloc())
        self.device.data[node.device_block].normal_()
        return node

    def step(self, hit: CacheNode, fresh: CacheNode):
        self.controller.load_back(hit)
        self.controller.write_through(fresh)
        self.controller.wait_loaded(hit)
        kv = self.device.data[hit.device_block]
        return torch.matmul(kv, self.weight).float().mean()


def main():
    engine = Engine((2048, 1024))
    cold = []
    for i in range(6):
        node = engine.prefill(f"doc-{i}")
        engine.controller.write_through(node)
        cold.append(CacheNode(node.key, host_slot=node.host_slot))
    engine.controller.flush()
    scores = []
    for i, hit in enumerate(cold):
        fresh = engine.prefill(f"chat-{i}")
        scores.append(engine.step(hit, fresh))
    engine.controller.flush()
    print(torch.stack(scores).tolist())


if __name__ == "__main__":
    main()
