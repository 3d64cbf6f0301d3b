from dataclasses import dataclass, field
from typing import List

import torch

from .pool import BlockPool


@dataclass
class Ticket:
    host_ids: List[int]
    done: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class Swapper:
    def __init__(self, pool: BlockPool):
        self.pool = pool
        self.stream = torch.cuda.Stream()

    def push_out(self, gpu_ids) -> Ticket:
        host_ids = self.pool.take_host(len(gpu_ids))
        ticket = Ticket(host_ids)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for g, h in zip(gpu_ids, host_ids):
                self.pool.host_pages[h].copy_(self.pool.pages[g], non_blocking=True)
            ticket.done.record()
        return ticket

    def pull_in(self, ticket: Ticket, gpu_ids):
        ticket.done.synchronize()
        for g, h in zip(gpu_ids, ticket.host_ids):
            self.pool.pages[g].copy_(self.pool.host_pages[h], non_blocking=True)
        back = torch.cuda.Event()
        back.record()
        back.synchronize()
        self.pool.put_back_host(ticket.host_ids)

    @staticmethod
    def cost(gpu_ids, page_bytes, gbps=24.0):
        """Rough time of a swap in milliseconds."""
        return len(gpu_ids) * page_bytes / (gbps * 1e6)
