"""Staged host-to-device uploads through a ring of pinned slots."""
import threading
import numpy as np
import cupy as cp
import cupyx


class StagingSlot:
    def __init__(self, nbytes):
        self.host = cupyx.empty_pinned((nbytes,), dtype=np.uint8)
        self.copied = cp.cuda.Event(disable_timing=True)
        self.drained = threading.Event()
        self.drained.set()

    def on_drained(self, _arg):
        self.drained.set()


class StagedTransfer:
    CHUNK = 4 << 20

    def __init__(self, slots=2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.ring = [StagingSlot(self.CHUNK) for _ in range(slots)]
        self.cursor = 0

    def _acquire(self):
        slot = self.ring[self.cursor]
        self.cursor = (self.cursor + 1) % len(self.ring)
        if not slot.drained.is_set():
            slot.copied.synchronize()
        slot.drained.clear()
        return slot

    def upload(self, src, dst):
        """Queue the upload of a numpy array into a device array."""
        flat = src.view(np.uint8).ravel()
        target = dst.view(cp.uint8).ravel()
        for off in range(0, flat.size, self.CHUNK):
            n = min(self.CHUNK, flat.size - off)
            slot = self._acquire()
            slot.host[:n] = flat[off:off + n]
            target[off:off + n].set(slot.host[:n], stream=self.stream)
            slot.copied.record(self.stream)
            self.stream.launch_host_func(slot.on_drained, None)


class ExecutionPlan:
    def __init__(self, n):
        self.transfer = StagedTransfer()
        with self.transfer.stream:
            self.x = cp.empty((n,), dtype=cp.float32)

    def execute(self, host):
        self.transfer.upload(host, self.x)
        with self.transfer.stream:
            total = self.x.sum()
            return float(total)


def main(n=1 << 26):
    plan = ExecutionPlan(n)
    for i in range(5):
        data = np.full((n,), i, dtype=np.float32)
        assert plan.execute(data) == float(i) * n


if __name__ == "__main__":
    main()
