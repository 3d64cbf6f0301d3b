"""Tiered KV storage: device slots are extracted into pinned chunks and persisted by a writer thread."""
import os
import queue
import threading

import numpy as np
import torch


class PinnedChunkPool:
    def __init__(self, count: int, numel: int):
        self._free: "queue.Queue[torch.Tensor]" = queue.Queue()
        for _ in range(count):
            self._free.put(torch.empty(numel, dtype=torch.float16, pin_memory=True))

    def acquire(self) -> torch.Tensor:
        return self._free.get()

    def release(self, chunk: torch.Tensor) -> None:
        self._free.put(chunk)


class DiskWriter(threading.Thread):
    def __init__(self, root: str, pool: PinnedChunkPool):
        super().__init__(daemon=True)
        os.makedirs(root, exist_ok=True)
        self.root = root
        self.pool = pool
        self.jobs: "queue.Queue" = queue.Queue()

    def submit(self, key: str, chunk: torch.Tensor, used: int) -> None:
        self.jobs.put((key, chunk, used))

    def run(self) -> None:
        while True:
            job = self.jobs.get()
            if job is None:
                return
            key, chunk, used = job
            np.save(os.path.join(self.root, key + ".npy"), chunk[:used].numpy())
            self.pool.release(chunk)


class StoreEngine:
    """kv has the layout [layers, 2, slots, hidden]."""

    def __init__(self, kv: torch.Tensor, root: str, chunk_slots: int = 256):
        self.kv = kv
        self.chunk_slots = chunk_slots
        per_slot = kv.shape[0] * 2 * kv.shape[3]
        self.pool = PinnedChunkPool(16, per_slot * chunk_slots)
        self.writer = DiskWriter(root, self.pool)
        self.writer.start()
        self.store_stream = torch.cuda.Stream()

    def _extract(self, first: int, last: int, chunk: torch.Tensor) -> int:
        with torch.cuda.stream(self.store_stream):
            flat = self.kv[:, :, first:last].contiguous().view(-1)
            chunk[: flat.numel()].copy_(flat, non_blocking=True)
        return flat.numel()

    def store(self, request_id: str, first: int, last: int) -> None:
        self.store_stream.wait_stream(torch.cuda.current_stream())
        for part, begin in enumerate(range(first, last, self.chunk_slots)):
            end = min(begin + self.chunk_slots, last)
            chunk = self.pool.acquire()
            used = self._extract(begin, end, chunk)
            self.writer.submit(f"{request_id}-{part}", chunk, used)
        self.store_stream.synchronize()

    def close(self) -> None:
        self.writer.jobs.put(None)
        self.writer.join()


def main() -> None:
    kv = torch.zeros(32, 2, 4096, 1024, dtype=torch.float16, device="cuda")
    engine = StoreEngine(kv, "/tmp/kv")
    for step in range(8):
        kv[:, :, step * 512 : (step + 1) * 512].normal_()
        engine.store(f"req{step}", step * 512, (step + 1) * 512)
    engine.close()


if __name__ == "__main__":
    main()
