"""A conveyor of pre-pinned buffers with deferred return."""
import threading
import time
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class BufferHandle:
    index: int
    view: torch.Tensor


class PinnedConveyor:
    def __init__(self, count: int, numel: int):
        self._buffers = [torch.empty(numel, pin_memory=True) for _ in range(count)]
        self._free = list(range(count))
        self._deferred: list[tuple[BufferHandle, torch.cuda.Event]] = []
        self._lock = threading.RLock()

    def get(self, numel: int) -> BufferHandle:
        while True:
            with self._lock:
                if not self._free:
                    self.collect()
                if self._free:
                    index = self._free.pop()
                    return BufferHandle(index, self._buffers[index][:numel])
            time.sleep(1e-4)

    def put(self, handle: BufferHandle) -> None:
        with self._lock:
            self._free.append(handle.index)

    def defer_put(self, handle: BufferHandle, event: torch.cuda.Event) -> None:
        with self._lock:
            self._deferred.append((handle, event))

    def collect(self) -> int:
        with self._lock:
            waiting = []
            for handle, event in self._deferred:
                if event.query():
                    self.put(handle)
                else:
                    waiting.append((handle, event))
            freed = len(self._deferred) - len(waiting)
            self._deferred = waiting
            return freed


class WeightStreamer(threading.Thread):
    def __init__(self, conveyor: PinnedConveyor, shards: dict[str, np.ndarray], device: torch.device):
        super().__init__()
        self.conveyor, self.shards, self.device = conveyor, shards, device
        self.loaded: dict[str, torch.Tensor] = {}

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for name, shard in self.shards.items():
                handle = self.conveyor.get(shard.size)
                try:
                    handle.view.numpy()[:] = shard.ravel()
                    out = torch.empty(shard.shape, device=self.device)
                    out.view(-1).copy_(handle.view, non_blocking=True)
                finally:
                    self.conveyor.defer_put(handle, stream.record_event())
                self.loaded[name] = out
        stream.synchronize()


def main():
    device = torch.device("cuda", 0)
    rng = np.random.default_rng(0)
    shards = {f"layer{i}": rng.standard_normal((256, 512), dtype=np.float32) for i in range(40)}
    conveyor = PinnedConveyor(count=3, numel=256 * 512)
    names = sorted(shards)
    threads = [WeightStreamer(conveyor, {n: shards[n] for n in names[k::2]}, device) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    weights = {**threads[0].loaded, **threads[1].loaded}
    print(max(abs(weights[n].sum().item() - shards[n].sum()) for n in names))


if __name__ == "__main__":
    main()
