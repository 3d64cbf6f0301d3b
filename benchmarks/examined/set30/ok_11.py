"""Block swapper: finished blocks are written back to host memory, their storage is held in a list."""
from collections import deque

import torch


class Evictor:
    """Copies tensors down on a side stream and keeps them alive until the copy is through."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.held = deque()
        self.bytes_held = 0

    def evict(self, tensor):
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            host.copy_(tensor, non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.stream)
        self.held.append((tensor, done))
        self.bytes_held += tensor.nbytes
        return HostBlock(host, done)

    def reap(self, limit=None):
        while self.held:
            tensor, done = self.held[0]
            over = limit is not None and self.bytes_held > limit
            if over:
                done.synchronize()
            elif not done.query():
                return
            self.held.popleft()
            self.bytes_held -= tensor.nbytes
            del tensor


class HostBlock:
    def __init__(self, host, done):
        self.host = host
        self.done = done

    def numpy(self):
        self.done.synchronize()
        return self.host.numpy()

    def restore(self, device):
        torch.cuda.current_stream(device).wait_event(self.done)
        return self.host.to(device, non_blocking=True)


class OutOfCoreMatrix:
    """A tall matrix whose row blocks visit the device one after the other."""

    def __init__(self, blocks, device, limit):
        self.device = torch.device(device)
        self.evictor = Evictor(device)
        self.limit = limit
        self.blocks = [self.evictor.evict(b.to(device)) for b in blocks]

    def apply(self, fn):
        for index, block in enumerate(self.blocks):
            rows = fn(block.restore(self.device))
            self.blocks[index] = self.evictor.evict(rows)
            del rows
            self.evictor.reap(self.limit)
        self.evictor.reap()

    def column_sums(self):
        total = 0.0
        for block in self.blocks:
            total = total + block.numpy().sum(axis=0)
        return total


def main(blocks=16, rows=1 << 14, cols=1024, rounds=4, device="cuda"):
    gen = torch.Generator().manual_seed(0)
    parts = [torch.randn(rows, cols, generator=gen) for _ in range(blocks)]
    matrix = OutOfCoreMatrix(parts, device, limit=4 * rows * cols * 4)
    mix = torch.randn(cols, cols, device=device) / cols ** 0.5
    for _ in range(rounds):
        matrix.apply(lambda block: torch.tanh(block @ mix))
    return matrix.column_sums()


if __name__ == "__main__":
    print(main().shape)
