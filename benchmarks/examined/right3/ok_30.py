"""Upload ring in which the stream itself hands host slots back."""
import threading

import cupy as cp
import numpy as np


class HostSlot:
    def __init__(self, n: int):
        self._mem = cp.cuda.alloc_pinned_memory(n * 4)
        self.array = np.frombuffer(self._mem, dtype=np.float32, count=n)
        self._free = threading.Event()
        self._free.set()

    def claim(self) -> np.ndarray:
        self._free.wait()
        self._free.clear()
        return self.array

    def release(self) -> None:
        self._free.set()


def _give_back(slot: HostSlot) -> None:
    slot.release()


class Accumulator:
    def __init__(self, n: int, slots: int = 4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.ring = [HostSlot(n) for _ in range(slots)]
        self.turn = 0
        with self.stream:
            self.incoming = cp.zeros(n, dtype=cp.float32)
            self.total = cp.zeros(n, dtype=cp.float32)

    def push(self, row: np.ndarray) -> None:
        slot = self.ring[self.turn]
        self.turn = (self.turn + 1) % len(self.ring)
        np.copyto(slot.claim(), row)
        self.incoming.set(slot.array, stream=self.stream)
        self.stream.launch_host_func(_give_back, slot)
        with self.stream:
            self.total += self.incoming

    def result(self) -> np.ndarray:
        with self.stream:
            return self.total.get()


def main():
    rng = np.random.default_rng(5)
    acc = Accumulator(1 << 18)
    expected = np.zeros(1 << 18, dtype=np.float64)
    for _ in range(64):
        row = rng.random(1 << 18, dtype=np.float32)
        expected += row
        acc.push(row)
    print(np.abs(acc.result() - expected).max())


if __name__ == "__main__":
    main()
