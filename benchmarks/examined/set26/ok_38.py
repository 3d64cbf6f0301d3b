"""Pinned staging ring retired by host callbacks with generations."""
import numpy as np
import cupy as cp
import cupyx


class StagingSlot:
    def __init__(self, nelem):
        self.host = cupyx.empty_pinned((nelem,), dtype=np.float32)
        self.copied = cp.cuda.Event(disable_timing=True)
        self.generation = 0
        self.drained = 0

    def begin(self):
        self.generation += 1
        return self.generation


def _retire(arg):
    slot, generation = arg
    if generation > slot.drained:
        slot.drained = generation


class StagingRing:
    def __init__(self, stream, nslots, nelem):
        self.stream = stream
        self.slots = [StagingSlot(nelem) for _ in range(nslots)]
        self.cursor = 0
        self.waits = 0

    def acquire(self):
        slot = self.slots[self.cursor]
        self.cursor = (self.cursor + 1) % len(self.slots)
        if slot.drained < slot.generation:
            slot.copied.synchronize()
            self.waits += 1
        return slot

    def submit(self, slot, target):
        generation = slot.begin()
        target.set(slot.host[:target.size], stream=self.stream)
        slot.copied.record(self.stream)
        self.stream.launch_host_func(_retire, (slot, generation))


class Uploader:
    def __init__(self, nelem=1 << 20, nslots=3):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.ring = StagingRing(self.stream, nslots, nelem)
        self.nelem = nelem

    def upload(self, source):
        with self.stream:
            device = cp.empty((source.size,), dtype=cp.float32)
        for off in range(0, source.size, self.nelem):
            part = source[off:off + self.nelem]
            slot = self.ring.acquire()
            slot.host[:part.size] = part
            self.ring.submit(slot, device[off:off + part.size])
        return device


def main(n=1 << 25):
    up = Uploader()
    for i in range(5):
        device = up.upload(np.full((n,), i + 1, np.float32))
        with up.stream:
            low, high = device.min(), device.max()
            assert float(low) == float(high) == i + 1
    print("event waits:", up.ring.waits)


if __name__ == "__main__":
    main()
