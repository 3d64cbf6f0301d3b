"""Block prefetch for a partially resident diffusion transformer."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

_PREFETCH_EXECUTOR = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vdn-prefetch")


class BlockPrefetcher:
    def __init__(self, host_blocks, device):
        self._host_blocks = host_blocks
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._lock = threading.Lock()
        self._generation = 0
        self._future = None
        self._index = None

    def _fetch(self, generation, index):
        with torch.cuda.stream(self._stream):
            tensors = {
                name: t.to(self._device, non_blocking=True)
                for name, t in self._host_blocks[index].items()
            }
            ready = torch.cuda.Event()
            ready.record(self._stream)
        return generation, tensors, ready

    def request(self, index):
        with self._lock:
            if self._future is not None and not self._future.done():
                return
            if self._future is not None and self._index == index:
                return
            self._index = index
            self._future = _PREFETCH_EXECUTOR.submit(self._fetch, self._generation, index)

    def take(self, index):
        with self._lock:
            future, held = self._future, self._index
            self._future = self._index = None
        if future is None or held != index:
            _, tensors, ready = self._fetch(self._generation, index)
        else:
            generation, tensors, ready = future.result()
            if generation != self._generation:
                _, tensors, ready = self._fetch(self._generation, index)
        current = torch.cuda.current_stream(self._device)
        current.wait_event(ready)
        for t in tensors.values():
            t.record_stream(current)
        return tensors

    def invalidate(self):
        with self._lock:
            self._generation += 1


def run_blocks(prefetcher, order, x):
    prefetcher.request(order[0])
    for pos, index in enumerate(order):
        block = prefetcher.take(index)
        if pos + 1 < len(order):
            prefetcher.request(order[pos + 1])
        x = torch.nn.functional.gelu(x @ block["w"] + block["b"])
    return x


def main():
    dev = torch.device("cuda:0")
    blocks = [
        {"w": torch.randn(1024, 1024).pin_memory(), "b": torch.zeros(1024).pin_memory()}
        for _ in range(12)
    ]
    prefetcher = BlockPrefetcher(blocks, dev)
    x = torch.randn(64, 1024, device=dev)
    for order in (range(12), [0, 3, 5, 7], range(11, -1, -1)):
        x = run_blocks(prefetcher, list(order), x)
        prefetcher.request(2)
        prefetcher.invalidate()
    print(float(x.abs().mean()))


if __name__ == "__main__":
    main()
