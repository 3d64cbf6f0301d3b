import bisect

import torch

from .capture import capture


class GraphRegistry:
    """Captured calls by batch size, the largest first to keep memory low."""

    def __init__(self, model, sizes, features, dtype):
        self.sizes = sorted(sizes)
        self.handle = torch.cuda.graph_pool_handle()
        self.calls = {}
        for size in reversed(self.sizes):
            self.calls[size] = capture(model, (size, features), dtype, pool=self.handle)
        torch.cuda.synchronize()

    def size_for(self, rows):
        at = bisect.bisect_left(self.sizes, rows)
        if at == len(self.sizes):
            raise ValueError(f"no captured call holds {rows} rows")
        return self.sizes[at]

    def __getitem__(self, size):
        return self.calls[size]

    def __contains__(self, size):
        return size in self.calls

    def __iter__(self):
        return iter(self.sizes)

    def __len__(self):
        return len(self.sizes)

    @property
    def largest(self):
        return self.sizes[-1]
