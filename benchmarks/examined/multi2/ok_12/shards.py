import torch


class ShardReader:
    """Yields page-locked chunks of a long embedding table, each its own tensor."""

    def __init__(self, rows, dim, chunk, seed=0):
        self.rows, self.dim, self.chunk = rows, dim, chunk
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return (self.rows + self.chunk - 1) // self.chunk

    def __iter__(self):
        left = self.rows
        while left > 0:
            n = min(left, self.chunk)
            block = torch.empty(n, self.dim, pin_memory=True)
            block.normal_(generator=self.gen)
            yield block
            left -= n

    @property
    def nbytes(self):
        return self.rows * self.dim * 4

    def restart(self, seed):
        self.gen.manual_seed(seed)
        return self
