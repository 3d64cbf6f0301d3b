from collections import deque

import torch


class OutOfBlocks(RuntimeError):
    pass


class BlockPool:
    """Paged key/value storage on the GPU plus a page-locked twin."""

    def __init__(self, n_gpu, n_host, heads=16, head_dim=128, block=64, device="cuda"):
        shape = (2, heads, block, head_dim)
        self.pages = torch.zeros((n_gpu,) + shape, dtype=torch.float16, device=device)
        self.host_pages = torch.zeros((n_host,) + shape, dtype=torch.float16, pin_memory=True)
        self.block = block
        self._free = deque(range(n_gpu))
        self._free_host = deque(range(n_host))

    @property
    def n_free(self):
        return len(self._free)

    def take(self, n):
        if n > len(self._free):
            raise OutOfBlocks(f"{n} wanted, {len(self._free)} left")
        return [self._free.popleft() for _ in range(n)]

    def put_back(self, ids):
        self._free.extendleft(ids)

    def take_host(self, n):
        if n > len(self._free_host):
            raise OutOfBlocks("host side is full")
        return [self._free_host.popleft() for _ in range(n)]

    def put_back_host(self, ids):
        self._free_host.extend(ids)

    def usage(self):
        total = self.pages.shape[0]
        return 1.0 - len(self._free) / total
