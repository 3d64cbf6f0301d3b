"""Layer-wise retrieve of KV chunks through a small page-locked allocator."""
from collections import deque

import numpy as np
import torch


class MemoryObj:
    def __init__(self, tensor, owner):
        self.tensor = tensor
        self._owner = owner
        self.ref_count = 0

    def ref_count_up(self):
        self.ref_count += 1

    def ref_count_down(self):
        self.ref_count -= 1
        if self.ref_count == 0:
            self._owner.free(self)


class PinnedAllocator:
    def __init__(self, shape, count):
        self._free = deque(
            MemoryObj(torch.empty(shape, dtype=torch.float16, pin_memory=True), self)
            for _ in range(count))

    def allocate(self):
        if not self._free:
            raise MemoryError("staging pool is empty")
        obj = self._free.pop()
        obj.ref_count_up()
        return obj

    def free(self, obj):
        self._free.append(obj)


class DiskBackend:
    def __init__(self):
        self._files = {}

    def put(self, key, layers):
        self._files[key] = [layer.numpy().tobytes() for layer in layers]

    def read_into(self, key, layer, obj):
        raw = np.frombuffer(self._files[key][layer], dtype=np.float16)
        obj.tensor.view(-1).numpy()[:] = raw


class GPUConnector:
    def __init__(self, kv, device):
        self.kv = kv
        self.device = torch.device(device)
        self.load_stream = torch.cuda.Stream(device)

    def begin(self):
        self.load_stream.wait_stream(torch.cuda.current_stream(self.device))

    def load_layer(self, layer, start, obj):
        n = obj.tensor.shape[1]
        with torch.cuda.stream(self.load_stream):
            self.kv[layer][:, start:start + n].copy_(obj.tensor, non_blocking=True)

    def sync_layer(self):
        torch.cuda.current_stream(self.device).wait_stream(self.load_stream)


class CacheEngine:
    def __init__(self, allocator, backend, connector):
        self.allocator = allocator
        self.backend = backend
        self.connector = connector

    def retrieve_layer(self, keys, layers, chunk):
        self.connector.begin()
        for layer in range(layers):
            held = []
            for i, key in enumerate(keys):
                obj = self.allocator.allocate()
                self.backend.read_into(key, layer, obj)
                self.connector.load_layer(layer, i * chunk, obj)
                held.append(obj)
            self.connector.sync_layer()
            for obj in held:
                obj.ref_count_down()
            yield layer


def main():
    layers, chunk, width = 16, 256, 1024
    device = "cuda:0"
    backend = DiskBackend()
    for key in ("a", "b", "c"):
        backend.put(key, [torch.randn(2, chunk, width).half() for _ in range(layers)])
    kv = [torch.zeros(2, 8 * chunk, width, dtype=torch.float16, device=device)
          for _ in range(layers)]
    engine = CacheEngine(PinnedAllocator((2, chunk, width), 4), backend,
                         GPUConnector(kv, device))
    total = torch.zeros((), device=device)
    for layer in engine.retrieve_layer(["a", "b", "c"], layers, chunk):
        total += kv[layer].float().pow(2).mean()
    print(total.item())


if __name__ == "__main__":
    main()
