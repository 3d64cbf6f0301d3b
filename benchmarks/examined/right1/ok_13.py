"""Ragged numpy samples packed into a small ring of pinned staging buffers."""
from contextlib import contextmanager

import numpy as np
import torch


class StagingRing:
    def __init__(self, slots, elements):
        self.buffers = [torch.empty(elements, dtype=torch.float32).pin_memory() for _ in range(slots)]
        self.busy = {}
        self.cursor = 0

    @contextmanager
    def borrow(self, stream):
        index = self.cursor
        self.cursor = (index + 1) % len(self.buffers)
        fence = self.busy.pop(index, None)
        if fence is not None:
            fence.synchronize()
        try:
            yield self.buffers[index]
        finally:
            self.busy[index] = stream.record_event()


class RaggedUploader:
    def __init__(self, slots=3, elements=1 << 20):
        self.ring = StagingRing(slots, elements)
        self.stream = torch.cuda.Stream()

    def __call__(self, arrays):
        lengths = [a.size for a in arrays]
        total = sum(lengths)
        with self.ring.borrow(self.stream) as staging:
            packed = staging[:total].numpy()
            np.concatenate([a.ravel() for a in arrays], out=packed)
            with torch.cuda.stream(self.stream):
                flat = torch.empty(total, device="cuda")
                flat.copy_(staging[:total], non_blocking=True)
        consumer = torch.cuda.current_stream()
        consumer.wait_stream(self.stream)
        flat.record_stream(consumer)
        return flat.split(lengths)


def batches(n, rng):
    for _ in range(n):
        yield [rng.standard_normal(rng.integers(100, 4000), dtype=np.float32) for _ in range(64)]


def main():
    rng = np.random.default_rng(0)
    upload = RaggedUploader()
    energy = torch.zeros(64, device="cuda")
    for arrays in batches(200, rng):
        pieces = upload(arrays)
        energy += torch.stack([p.square().mean() for p in pieces])
    print(energy.cpu().numpy()[:8])


if __name__ == "__main__":
    main()
