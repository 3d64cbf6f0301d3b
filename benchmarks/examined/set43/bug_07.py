from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch


@dataclass
class MemoryObj:
    key: str
    tensor: torch.Tensor


class Allocator:
    def __init__(self, chunk_tokens: int, width: int, device, count: int):
        pin = torch.device(device).type == "cpu"
        self.free = [
            torch.empty((chunk_tokens, width), device=device, pin_memory=pin)
            for _ in range(count)
        ]

    def allocate(self, key: str) -> MemoryObj:
        return MemoryObj(key, self.free.pop())


class PagedConnector:
    def __init__(self, kvcache: torch.Tensor):
        self.kvcache = kvcache
        self.store_stream = torch.cuda.Stream(device=kvcache.device)

    def from_gpu(self, obj: MemoryObj, slots: torch.Tensor):
        self.store_stream.wait_stream(torch.cuda.current_stream(self.kvcache.device))
        slots.record_stream(self.store_stream)
        with torch.cuda.stream(self.store_stream):
            if obj.tensor.is_cuda:
                torch.index_select(self.kvcache, 0, slots, out=obj.tensor)
            else:
                tmp = self.kvcache.index_select(0, slots)
                obj.tensor.copy_(tmp, non_blocking=True)
        if not obj.tensor.is_cuda:
            self.store_stream.synchronize()

    def batched_from_gpu(self, pairs: List[Tuple[MemoryObj, torch.Tensor]]):
        for obj, slots in pairs:
            self.from_gpu(obj, slots)


class PDChannel:
    """Pushes chunks into the receive window of the decode side."""

    def __init__(self, window: torch.Tensor):
        self.window = window
        self.send_stream = torch.cuda.Stream()
        self.cursor = 0
        self.directory: Dict[str, Tuple[int, int]] = {}

    def put(self, objs: List[MemoryObj]):
        with torch.cuda.stream(self.send_stream):
            for obj in objs:
                rows = obj.tensor.shape[0]
                lo, hi = self.cursor, self.cursor + rows
                self.window[lo:hi].copy_(obj.tensor, non_blocking=True)
                self.directory[obj.key] = (lo, hi)
                self.cursor = hi
        self.send_stream.synchronize()


class CacheEngine:
    def __init__(self, connector: PagedConnector, allocator: Allocator, channel: PDChannel):
        self.connector = connector
        self.allocator = allocator
        self.channel = channel

    def store(self, keys: List[str], slot_mapping: torch.Tensor, chunk: int):
        pairs = []
        for i, key in enumerate(keys):
            obj = self.allocator.allocate(key)
            pairs.append((obj, slot_mapping[i * chunk:(i + 1) * chunk]))
        self.connector.batched_from_gpu(pairs)
        self.channel.put([obj for obj, _ in pairs])


def main(buffer_device: str = "cuda"):
    width, chunk, chunks = 4096, 256, 8
    kvcache = torch.zeros((8192, width), device="cuda")
    window = torch.zeros((chunk * chunks, width), device="cuda")
    connector = PagedConnector(kvcache)
    allocator = Allocator(chunk, width, buffer_device, chunks)
    channel = PDChannel(window)
    engine = CacheEngine(connector, allocator, channel)

    slots = torch.randperm(8192, device="cuda")[: chunk * chunks]
    proj = torch.randn((512, width), device="cuda")
    torch.cuda.synchronize()
    hidden = torch.randn((chunk * chunks, 512), device="cuda")
    kvcache.index_copy_(0, slots, hidden @ proj)
    engine.store([f"k{i}" for i in range(chunks)], slots, chunk)
    print(window.norm().item(), kvcache.norm().item())


if __name__ == "__main__":
    main()
