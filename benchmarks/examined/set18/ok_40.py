import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import shared_memory

import numpy as np
import torch


@dataclass
class StagedChunk:
    tensor: torch.Tensor
    gather_done: torch.cuda.Event


class PinnedStagingPool:
    def __init__(self, chunks: int, shape: tuple[int, ...], dtype: torch.dtype):
        self._free: queue.Queue[StagedChunk] = queue.Queue()
        for _ in range(chunks):
            tensor = torch.empty(shape, dtype=dtype, pin_memory=True)
            self._free.put(StagedChunk(tensor, torch.cuda.Event()))

    def acquire(self) -> StagedChunk:
        return self._free.get()

    def release(self, chunk: StagedChunk):
        self._free.put(chunk)


class SharedCache:
    """Slots of a shared-memory segment, committed by key."""

    def __init__(self, slots: int, nbytes: int):
        self.nbytes = nbytes
        self.segment = shared_memory.SharedMemory(create=True, size=slots * nbytes)
        self.next_slot = 0
        self.slots = slots
        self.index: dict[str, int] = {}
        self.lock = threading.Lock()

    def write(self, key: str, source: torch.Tensor):
        with self.lock:
            slot = self.next_slot % self.slots
            self.next_slot += 1
        offset = slot * self.nbytes
        view = np.ndarray(self.nbytes, np.uint8, self.segment.buf, offset)
        view[:] = source.view(torch.uint8).reshape(-1).numpy()
        with self.lock:
            self.index[key] = slot

    def close(self):
        self.segment.close()
        self.segment.unlink()


class EngineDrivenStore:
    def __init__(self, kv: torch.Tensor, blocks_per_chunk: int, cache_slots: int = 64):
        self.kv = kv
        shape = (blocks_per_chunk, *kv.shape[1:])
        self.pool = PinnedStagingPool(4, shape, kv.dtype)
        nbytes = blocks_per_chunk * kv[0].numel() * kv.element_size()
        self.cache = SharedCache(cache_slots, nbytes)
        self.stream = torch.cuda.Stream(kv.device)
        self.executor = ThreadPoolExecutor(max_workers=2)

    def store(self, key: str, block_ids: torch.Tensor) -> tuple[Future, Future]:
        """Returns (source blocks reusable, committed)."""
        chunk = self.pool.acquire()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            gathered = self.kv.index_select(0, block_ids)
            chunk.tensor.copy_(gathered, non_blocking=True)
            block_ids.record_stream(self.stream)
            chunk.gather_done.record(self.stream)
        completion: Future = Future()
        committed = self.executor.submit(self._commit, key, chunk, completion)
        return completion, committed

    def _commit(self, key: str, chunk: StagedChunk, completion: Future) -> str:
        try:
            chunk.gather_done.synchronize()
            completion.set_result(True)
            self.cache.write(key, chunk.tensor)
        finally:
            self.pool.release(chunk)
        return key

    def close(self):
        self.executor.shutdown(wait=True)
        self.cache.close()


def main(blocks=512, block_shape=(16, 8, 128), per_chunk=32):
    kv = torch.zeros(blocks, *block_shape, dtype=torch.float16, device="cuda")
    store = EngineDrivenStore(kv, per_chunk)
    commits = []
    for step in range(48):
        first = step * per_chunk % blocks
        ids = torch.arange(first, first + per_chunk, device="cuda")
        kv[ids] = torch.full((per_chunk, *block_shape), step + 1, dtype=kv.dtype, device="cuda")
        reusable, committed = store.store(f"chunk-{step}", ids)
        commits.append(committed)
        reusable.result()
        kv[ids] = 0
    print([c.result() for c in commits][-1], len(store.cache.index))
    store.close()


if __name__ == "__main__":
    main()
