from queue import Queue
from threading import Thread
from typing import Any, Iterator

import torch
from torch.utils.data import DataLoader


class GPUPrefetcher:
    r"""A GPU prefetcher class for asynchronously loading data from a
    :class:`torch.utils.data.DataLoader` from host memory to device memory.

    Args:
        loader (torch.utils.DataLoader): A data loader object.
        device (torch.device): The CUDA device to load the data to.
        prefetch_size (int, optional): The number of batches to prefetch at
            once. (default: :obj:`1`)
    """

    def __init__(self, loader: DataLoader, device: torch.device, prefetch_size: int = 1):
        if prefetch_size < 1:
            raise ValueError(f"'prefetch_size' must be greater than 0 (got {prefetch_size})")
        self.loader = loader
        self.device = torch.device(device)
        self.prefetch_size = prefetch_size
        self.load_stream = torch.cuda.Stream(device=device)
        self.queue: Queue = Queue(maxsize=prefetch_size)
        self.worker = None
        self.idx = 0

    def non_blocking_transfer(self, batch: Any) -> Any:
        if isinstance(batch, (list, tuple)):
            return [self.non_blocking_transfer(v) for v in batch]
        if isinstance(batch, dict):
            return {k: self.non_blocking_transfer(v) for k, v in batch.items()}
        batch = batch.pin_memory()
        return batch.to(self.device, non_blocking=True)

    def _tensors(self, batch: Any) -> Iterator[torch.Tensor]:
        if isinstance(batch, (list, tuple)):
            for v in batch:
                yield from self._tensors(v)
        elif isinstance(batch, dict):
            for v in batch.values():
                yield from self._tensors(v)
        else:
            yield batch

    def load_loop(self):
        for batch in self.loader:
            with torch.cuda.stream(self.load_stream):
                batch = self.non_blocking_transfer(batch)
            self.queue.put((batch, self.load_stream.record_event()))
        self.queue.put(None)

    def __iter__(self) -> "GPUPrefetcher":
        is_dead = self.worker is None or not self.worker.is_alive()
        if is_dead and self.queue.empty():
            self.idx = 0
            self.worker = Thread(target=self.load_loop, daemon=True)
            self.worker.start()
        return self

    def __next__(self) -> Any:
        item = self.queue.get()
        if item is None:
            self.worker.join()
            raise StopIteration
        batch, ready = item
        current_stream = torch.cuda.current_stream(self.device)
        current_stream.wait_event(ready)
        for tensor in self._tensors(batch):
            tensor.record_stream(current_stream)
        self.idx += 1
        return batch

    def __len__(self) -> int:
        return len(self.loader)


def test(model, loader, device):
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    total = 0
    with torch.no_grad():
        for data in GPUPrefetcher(loader, device, prefetch_size=2):
            out = model(data["x"], data["edge_index"])
            correct += (out.argmax(dim=-1) == data["y"]).sum()
            total += data["y"].numel()
    return int(correct) / total
