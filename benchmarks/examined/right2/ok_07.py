from collections import deque
from typing import NamedTuple

import torch


class HiCacheAck(NamedTuple):
    finish_event: torch.cuda.Event
    node_id: int
    pages: list
    host_copy: torch.Tensor


class OutOfPages(RuntimeError):
    pass


class PagedCache:
    """Device pages which return to the free list once they are backed up."""

    def __init__(self, num_pages: int, page_shape: tuple, device: torch.device):
        self.pages = torch.zeros(num_pages, *page_shape, device=device)
        self.free = list(range(num_pages))
        self.host_nodes: dict[int, torch.Tensor] = {}
        self.ack_write_queue: deque[HiCacheAck] = deque()
        self.write_stream = torch.cuda.Stream(device)

    def allocate(self, count: int) -> list:
        self.check_writes()
        while len(self.free) < count:
            if not self.ack_write_queue:
                raise OutOfPages(count)
            self.ack_write_queue[0].finish_event.synchronize()
            self.check_writes()
        taken, self.free = self.free[:count], self.free[count:]
        return taken

    def fill(self, pages: list, values: torch.Tensor) -> None:
        for page, value in zip(pages, values):
            self.pages[page].copy_(value)

    def evict(self, node_id: int, pages: list) -> None:
        host = torch.empty((len(pages), *self.pages.shape[1:]),
                           dtype=self.pages.dtype, pin_memory=True)
        self.write_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.write_stream):
            for row, page in enumerate(pages):
                host[row].copy_(self.pages[page], non_blocking=True)
        event = torch.cuda.Event()
        event.record(self.write_stream)
        self.ack_write_queue.append(HiCacheAck(event, node_id, pages, host))

    def check_writes(self) -> int:
        finished = 0
        while self.ack_write_queue and self.ack_write_queue[0].finish_event.query():
            ack = self.ack_write_queue.popleft()
            self.host_nodes[ack.node_id] = ack.host_copy
            self.free.extend(ack.pages)
            finished += 1
        return finished

    def lookup(self, node_id: int):
        self.check_writes()
        return self.host_nodes.get(node_id)


def serve(cache: PagedCache, model, requests):
    for node_id, tokens in enumerate(requests):
        kv = model(tokens.cuda())
        pages = cache.allocate(kv.shape[0])
        cache.fill(pages, kv)
        score = cache.pages[pages].mean()
        cache.evict(node_id, pages)
        yield node_id, score.item()
