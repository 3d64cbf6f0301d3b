"""Texture streaming: a scope guards the page-locked scratch area."""
import numpy as np
import torch


class Scratch:
    def __init__(self, numel):
        self.memory = torch.empty(numel, dtype=torch.uint8, pin_memory=True)
        self.stream = torch.cuda.Stream()

    def open(self, shape):
        return ScratchScope(self, shape)


class ScratchScope:
    """Gives access to the scratch memory; leaving it waits for the transfer."""

    def __init__(self, scratch, shape):
        self.scratch, self.shape = scratch, shape
        self.fence = torch.cuda.Event()

    def __enter__(self):
        n = int(np.prod(self.shape))
        self.fence.record(self.scratch.stream)
        return self.scratch.memory[:n].view(self.shape)

    def __exit__(self, exc_type, exc, tb):
        self.fence.synchronize()
        return False


class TexturePool:
    def __init__(self, capacity, side):
        self.scratch = Scratch(side * side * 4)
        self.side = side
        self.pages = torch.zeros(capacity, side, side, 4, dtype=torch.uint8, device="cuda")
        self.scratch.stream.wait_stream(torch.cuda.current_stream())

    def load(self, index, texels):
        with self.scratch.open((self.side, self.side, 4)) as staging:
            staging.copy_(torch.from_numpy(texels))
            with torch.cuda.stream(self.scratch.stream):
                self.pages[index].copy_(staging, non_blocking=True)

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.scratch.stream)
        return self.pages


def main():
    rng = np.random.default_rng(4)
    pool = TexturePool(64, 2048)
    for i in range(64):
        pool.load(i, rng.integers(0, 255, (2048, 2048, 4), dtype=np.uint8))
    pages = pool.finish()
    print(pages.float().mean(dim=(1, 2, 3)).tolist())


if __name__ == "__main__":
    main()
