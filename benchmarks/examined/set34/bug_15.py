"""Page-locked host allocator for feature uploads in a recommender service."""
import threading
from collections import defaultdict

import numpy as np
import torch


def _round_up(nbytes):
    size = 4096
    while size < nbytes:
        size *= 2
    return size


class HostBlock:
    def __init__(self, cache, memory):
        self._cache = cache
        self.memory = memory

    def typed(self, shape, dtype):
        numel = int(np.prod(shape))
        nbytes = numel * torch.empty((), dtype=dtype).element_size()
        return self.memory[:nbytes].view(dtype).view(*shape)

    def __del__(self):
        self._cache.put(self.memory)


class CachingHostAllocator:
    def __init__(self):
        self._lock = threading.RLock()
        self._free = defaultdict(list)
        self.misses = 0

    def get(self, nbytes):
        size = _round_up(nbytes)
        with self._lock:
            if self._free[size]:
                return HostBlock(self, self._free[size].pop())
            self.misses += 1
        return HostBlock(self, torch.empty(size, dtype=torch.uint8, pin_memory=True))

    def put(self, memory):
        with self._lock:
            self._free[memory.numel()].append(memory)


class FeatureClient:
    def __init__(self, device, allocator):
        self.device = device
        self.allocator = allocator

    def to_device(self, array):
        source = torch.from_numpy(np.ascontiguousarray(array))
        block = self.allocator.get(array.nbytes)
        host = block.typed(source.shape, source.dtype)
        host.copy_(source)
        return host.to(self.device, non_blocking=True)

    def batch(self, features):
        return {name: self.to_device(value) for name, value in features.items()}


class Ranker(torch.nn.Module):
    def __init__(self, rows=100_000, dim=64):
        super().__init__()
        self.user = torch.nn.Embedding(rows, dim)
        self.item = torch.nn.Embedding(rows, dim)
        self.dense = torch.nn.Linear(512, dim)

    def forward(self, f):
        u = self.user(f["user"]) + self.dense(f["dense"])
        return (u.unsqueeze(1) * self.item(f["items"])).sum(-1)


@torch.inference_mode()
def serve(requests):
    device = torch.device("cuda")
    model = Ranker().to(device).eval()
    client = FeatureClient(device, CachingHostAllocator())
    scores = [model(client.batch(r)) for r in requests]
    return torch.stack([s.topk(10, dim=1).indices for s in scores]).cpu()


def main():
    rng = np.random.default_rng(0)
    requests = [
        {
            "user": rng.integers(0, 100_000, 4096),
            "items": rng.integers(0, 100_000, (4096, 64)),
            "dense": rng.standard_normal((4096, 512)).astype(np.float32),
        }
        for _ in range(32)
    ]
    print(serve(requests).shape)


if __name__ == "__main__":
    main()
