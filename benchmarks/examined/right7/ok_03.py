"""Background thread that evicts KV blocks on its own stream."""
import queue
import threading

import torch


class EvictJob:
    def __init__(self, block: int, slot: int, ready: torch.cuda.Event):
        self.block, self.slot, self.ready = block, slot, ready
        self.launched = threading.Event()
        self.copied = torch.cuda.Event()

    def block_free(self, stream: torch.cuda.Stream):
        self.launched.wait()
        stream.wait_event(self.copied)

    def wait_host(self):
        self.launched.wait()
        self.copied.synchronize()


class Evictor(threading.Thread):
    def __init__(self, cache: torch.Tensor, host: torch.Tensor):
        super().__init__(daemon=True)
        self.cache, self.host = cache, host
        self.stream = torch.cuda.Stream()
        self.jobs: queue.Queue = queue.Queue()

    def run(self):
        while (job := self.jobs.get()) is not None:
            self.stream.wait_event(job.ready)
            with torch.cuda.stream(self.stream):
                self.host[job.slot].copy_(self.cache[job.block], non_blocking=True)
                job.copied.record()
            job.launched.set()

    def submit(self, block: int, slot: int) -> EvictJob:
        ready = torch.cuda.current_stream().record_event()
        job = EvictJob(block, slot, ready)
        self.jobs.put(job)
        return job


class BlockManager:
    def __init__(self, n_blocks: int = 8, width: int = 4096):
        self.cache = torch.empty(n_blocks, width, device="cuda")
        self.host = torch.empty(64, width, pin_memory=True)
        self.evictor = Evictor(self.cache, self.host)
        self.evictor.start()
        self.pending: dict[int, EvictJob] = {}
        self.by_slot: dict[int, EvictJob] = {}

    def write(self, block: int, value: torch.Tensor):
        job = self.pending.pop(block, None)
        if job is not None:
            job.block_free(torch.cuda.current_stream())
        self.cache[block].copy_(value)

    def evict(self, block: int, slot: int):
        self.pending[block] = self.by_slot[slot] = self.evictor.submit(block, slot)

    def read_host(self, slot: int) -> float:
        self.by_slot[slot].wait_host()
        return float(self.host[slot].sum())

    def close(self):
        self.evictor.jobs.put(None)
        self.evictor.join()


if __name__ == "__main__":
    mgr = BlockManager()
    for i in range(64):
        mgr.write(i % 8, torch.full((4096,), float(i), device="cuda"))
        mgr.evict(i % 8, i)
    print(sum(mgr.read_host(s) for s in range(64)))
    mgr.close()
