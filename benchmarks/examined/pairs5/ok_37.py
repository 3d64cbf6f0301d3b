"""External sort: chunks sorted on the device into runs on disk, then merged on the host."""
import heapq
import os
import tempfile
import numpy as np
import cupy as cp
import cupyx


class RunSlot:
    def __init__(self, n):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.src = cupyx.empty_pinned((n,), dtype=np.float32)
        self.dst = cupyx.empty_pinned((n,), dtype=np.float32)
        with self.stream:
            self.dev = cp.empty(n, cp.float32)
        self.run = None


class ExternalSorter:
    def __init__(self, n, directory, slots=2):
        self.n, self.directory = n, directory
        self.slots = [RunSlot(n) for _ in range(slots)]
        self.paths = []

    def _spill(self, slot):
        if slot.run is None:
            return
        slot.stream.synchronize()
        path = os.path.join(self.directory, f"run{slot.run:04d}.npy")
        np.save(path, slot.dst)
        self.paths.append(path)
        slot.run = None

    def runs(self, chunks):
        for i, chunk in enumerate(chunks):
            slot = self.slots[i % len(self.slots)]
            self._spill(slot)
            slot.src[...] = chunk
            with slot.stream as s:
                slot.dev.set(slot.src, stream=s)
                slot.dev.sort()
                slot.dev.get(stream=s, out=slot.dst, blocking=False)
            slot.run = i
        for slot in self.slots:
            self._spill(slot)
        return [np.load(p, mmap_mode="r") for p in self.paths]


def main(n=1 << 20):
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        sorter = ExternalSorter(n, directory)
        runs = sorter.runs(rng.random(n, dtype=np.float32) for _ in range(12))
        merged = heapq.merge(*(r[:1000] for r in runs))
        print(len(runs), next(iter(merged)))


if __name__ == "__main__":
    main()
