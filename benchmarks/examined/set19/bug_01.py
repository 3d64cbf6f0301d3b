"""Disk tier of a KV offload connector: pinned bounce buffers between files and the paged GPU cache."""
import os
import queue
import threading
from dataclasses import dataclass, field

import torch


@dataclass
class TransferJob:
    block_ids: list
    keys: list
    is_store: bool
    ready: torch.cuda.Event
    done: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    issued: threading.Event = field(default_factory=threading.Event)


class DiskBackend:
    NUM_SLOTS = 2

    def __init__(self, root, gpu_cache):
        self.root = root
        self.gpu_cache = gpu_cache
        self.block_bytes = gpu_cache.shape[1]
        self.load_stream = torch.cuda.Stream()
        self.store_stream = torch.cuda.Stream()
        self._load_bufs = self._alloc_slots()
        self._store_bufs = self._alloc_slots()
        self._jobs = queue.Queue()
        self._worker = threading.Thread(target=self._run, daemon=True)
        self._worker.start()

    def _alloc_slots(self):
        return [
            torch.empty(self.block_bytes, dtype=torch.uint8, pin_memory=True)
            for _ in range(self.NUM_SLOTS)
        ]

    def _path(self, key):
        return os.path.join(self.root, f"{key}.kv")

    def _do_store(self, job):
        self.store_stream.wait_event(job.ready)
        for block_id, key in zip(job.block_ids, job.keys):
            buf = self._store_bufs[0]
            with torch.cuda.stream(self.store_stream):
                buf.copy_(self.gpu_cache[block_id], non_blocking=True)
            self.store_stream.synchronize()
            with open(self._path(key), "wb") as f:
                f.write(memoryview(buf.numpy()))
        job.done.record(self.store_stream)

    def _do_load(self, job):
        n = len(job.block_ids)
        dma_events = [None] * n
        self.load_stream.wait_event(job.ready)
        for i, (block_id, key) in enumerate(zip(job.block_ids, job.keys)):
            slot = i % self.NUM_SLOTS
            if i >= self.NUM_SLOTS:
                dma_events[i - self.NUM_SLOTS].synchronize()
            buf = self._load_bufs[slot]
            with open(self._path(key), "rb") as f:
                f.readinto(memoryview(buf.numpy()))
            with torch.cuda.stream(self.load_stream):
                self.gpu_cache[block_id].copy_(buf, non_blocking=True)
                dma_events[i] = torch.cuda.Event()
                dma_events[i].record(self.load_stream)
        job.done.record(self.load_stream)

    def _run(self):
        while True:
            job = self._jobs.get()
            if job is None:
                return
            if job.is_store:
                self._do_store(job)
            else:
                self._do_load(job)
            job.issued.set()

    def submit(self, block_ids, keys, is_store):
        ready = torch.cuda.Event()
        ready.record(torch.cuda.current_stream())
        job = TransferJob(list(block_ids), list(keys), is_store, ready)
        self._jobs.put(job)
        return job

    def wait(self, job):
        job.issued.wait()
        torch.cuda.current_stream().wait_event(job.done)


def restore_prefixes(backend, plan, attend):
    jobs = [backend.submit(blocks, keys, is_store=False) for blocks, keys in plan]
    for job in jobs:
        backend.wait(job)
        attend(job.block_ids)


if __name__ == "__main__":
    cache = torch.zeros(256, 1 << 20, dtype=torch.uint8, device="cuda")
    disk = DiskBackend("/var/tmp/kv", cache)
    totals = []
    restore_prefixes(
        disk,
        [([1, 2, 3], ["a0", "a1", "a2"]), ([7, 8], ["b0", "b1"])],
        lambda ids: totals.append(cache[ids].float().sum()),
    )
    print([t.item() for t in totals])
