"""Moves leased KV pages of one engine into the buffers of another one."""
import threading
from dataclasses import dataclass, field

import torch


class PagePool:
    """Paged cache with a last-in, first-out free list."""

    def __init__(self, layers, pages, page_shape, dtype=torch.bfloat16, device="cuda"):
        self.buffers = [
            torch.zeros(pages, *page_shape, dtype=dtype, device=device)
            for _ in range(layers)
        ]
        self.free = list(range(pages))
        self.lock = threading.Lock()

    def lease(self, count):
        with self.lock:
            if len(self.free) < count:
                raise MemoryError("page pool exhausted")
            taken, self.free = self.free[:count], self.free[count:]
        return taken

    def release(self, pages):
        with self.lock:
            self.free = list(pages) + self.free

    def fill(self, layer, pages, values):
        index = torch.tensor(pages, device=values.device)
        self.buffers[layer].index_copy_(0, index, values)


@dataclass
class Transfer:
    pool: PagePool
    pages: list
    done: torch.cuda.Event = field(default_factory=torch.cuda.Event)

    def wait(self):
        self.done.synchronize()
        self.pool.release(self.pages)


class PageMover:
    def __init__(self, device="cuda"):
        self.stream = torch.cuda.Stream(device)

    def start(self, source, pages, target, target_pages):
        ready = torch.cuda.current_stream().record_event()
        transfer = Transfer(source, pages)
        try:
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(ready)
                for src, dst in zip(source.buffers, target.buffers, strict=True):
                    if src.shape[1:] != dst.shape[1:]:
                        raise ValueError(f"page layout {src.shape} does not fit {dst.shape}")
                    for s, t in zip(pages, target_pages, strict=True):
                        dst[t].copy_(src[s], non_blocking=True)
                transfer.done.record(self.stream)
        except Exception:
            source.release(pages)
            raise
        return transfer


class PrefillEngine:
    def __init__(self, pool, mover):
        self.pool = pool
        self.mover = mover
        self.failed = 0

    def serve(self, keys, target, target_pages):
        pages = self.pool.lease(len(target_pages))
        for layer, values in enumerate(keys):
            self.pool.fill(layer, pages, values)
        try:
            return self.mover.start(self.pool, pages, target, target_pages)
        except ValueError:
            self.failed += 1
            return None


def run(engine, requests):
    active = []
    for keys, target, target_pages in requests:
        transfer = engine.serve(keys, target, target_pages)
        if transfer is not None:
            active.append(transfer)
        while len(active) > 4:
            active.pop(0).wait()
    for transfer in active:
        transfer.wait()
