"""Pinned staging memory that goes back to its pool when the device tensor it filled is collected."""
import threading
import weakref

import numpy as np
import torch


class PinnedPool:
    def __init__(self, nbytes: int, count: int):
        self._cond = threading.Condition()
        self._free = [torch.empty(nbytes, dtype=torch.uint8, pin_memory=True) for _ in range(count)]

    def take(self) -> torch.Tensor:
        with self._cond:
            while not self._free:
                self._cond.wait()
            return self._free.pop()

    def give(self, buf: torch.Tensor):
        with self._cond:
            self._free.append(buf)
            self._cond.notify()


class StagedArray:
    """A numpy array on its way to the device."""

    def __init__(self, pool: PinnedPool, array: np.ndarray, stream: torch.cuda.Stream):
        raw = pool.take()
        view = raw[: array.nbytes].numpy().view(array.dtype).reshape(array.shape)
        np.copyto(view, array)
        with torch.cuda.stream(stream):
            self._tensor = torch.from_numpy(view).to("cuda", non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        weakref.finalize(self, StagedArray._recycle, pool, raw, self._event)

    @staticmethod
    def _recycle(pool: PinnedPool, raw: torch.Tensor, event: torch.cuda.Event):
        event.synchronize()
        pool.give(raw)

    def get(self) -> torch.Tensor:
        stream = torch.cuda.current_stream()
        stream.wait_event(self._event)
        self._tensor.record_stream(stream)
        return self._tensor


def main():
    rng = np.random.default_rng(0)
    pool = PinnedPool(8 << 20, 3)
    up = torch.cuda.Stream()
    total = torch.zeros(1024, device="cuda")
    ahead = StagedArray(pool, rng.random((1024, 1024), dtype=np.float32), up)
    for _ in range(50):
        now, ahead = ahead, StagedArray(pool, rng.random((1024, 1024), dtype=np.float32), up)
        total += now.get().square().sum(0)
        del now
    total += ahead.get().sum(0)
    print(total.mean().item())


if __name__ == "__main__":
    main()
