"""Small host tables are sent to the device through one page-locked arena shared by all threads."""
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List

import numpy as np
import torch


class UploadArena:
    ALIGN = 256

    def __init__(self, nbytes: int, device: torch.device):
        self.device = device
        self._memory = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
        self._offset = 0
        self._lock = threading.Lock()

    def upload(self, array: np.ndarray, target: torch.Tensor) -> torch.Tensor:
        """Copies array into target in the order of the caller's current stream."""
        if target.device != self.device:
            raise ValueError(f"target lives on {target.device}, the arena serves {self.device}")
        source = torch.from_numpy(np.ascontiguousarray(array))
        nbytes = source.numel() * source.element_size()
        if nbytes > self._memory.numel():
            raise ValueError(f"{nbytes} bytes exceed the arena")
        with self._lock:
            if self._offset + nbytes > self._memory.numel():
                torch.cuda.synchronize(self.device)
                self._offset = 0
            region = self._memory[self._offset : self._offset + nbytes].view(source.dtype).view(source.shape)
            region.copy_(source)
            target.copy_(region, non_blocking=True)
            self._offset += -(-nbytes // self.ALIGN) * self.ALIGN
        return target


class SparseBatcher:
    """Turns ragged host rows into padded device tables and pools embedding rows with them."""

    def __init__(self, arena: UploadArena, vocabulary: int, dim: int):
        self.arena = arena
        self.table = torch.randn(vocabulary, dim, device=arena.device)
        torch.cuda.synchronize(arena.device)

    def pool(self, rows: List[np.ndarray]) -> torch.Tensor:
        lengths = np.array([len(r) for r in rows], dtype=np.int64)
        padded = np.zeros((len(rows), int(lengths.max())), dtype=np.int64)
        for index, row in enumerate(rows):
            padded[index, : len(row)] = row
        device = self.arena.device
        ids = self.arena.upload(padded, torch.empty(padded.shape, dtype=torch.int64, device=device))
        counts = self.arena.upload(lengths, torch.empty(lengths.shape, dtype=torch.int64, device=device))
        mask = torch.arange(padded.shape[1], device=device)[None] < counts[:, None]
        vectors = self.table[ids] * mask[..., None]
        return vectors.sum(dim=1) / counts[:, None].clamp(min=1)


class PoolingService:
    def __init__(self, batcher: SparseBatcher):
        self.batcher = batcher
        self._streams: Dict[int, torch.cuda.Stream] = {}

    def handle(self, rows: List[np.ndarray]) -> np.ndarray:
        device = self.batcher.arena.device
        torch.cuda.set_device(device)
        stream = self._streams.setdefault(threading.get_ident(), torch.cuda.Stream(device))
        with torch.cuda.stream(stream):
            return self.batcher.pool(rows).cpu().numpy()


def main() -> None:
    device = torch.device("cuda", 0)
    service = PoolingService(SparseBatcher(UploadArena(8 << 20, device), 100_000, 64))
    rng = np.random.default_rng(5)
    requests = [[rng.integers(0, 100_000, rng.integers(1, 200)) for _ in range(512)] for _ in range(64)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = list(pool.map(service.handle, requests))
    print(len(answers), answers[0].shape)


if __name__ == "__main__":
    main()
