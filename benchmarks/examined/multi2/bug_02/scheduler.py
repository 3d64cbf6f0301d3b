from collections import deque
from dataclasses import dataclass, field
from typing import List, Optional

from kv import BlockPool, Swapper, Ticket


@dataclass
class Sequence:
    sid: int
    n_blocks: int
    blocks: List[int] = field(default_factory=list)
    ticket: Optional[Ticket] = None


class Scheduler:
    """First come first served; the oldest runner is preempted when memory is short."""

    def __init__(self, pool: BlockPool, swapper: Swapper):
        self.pool = pool
        self.swapper = swapper
        self.running = deque()
        self.parked = deque()

    def _preempt_one(self):
        seq = self.running.popleft()
        seq.ticket = self.swapper.push_out(seq.blocks)
        self.pool.put_back(seq.blocks)
        seq.blocks = []
        self.parked.append(seq)

    def admit(self, seq: Sequence):
        while self.pool.n_free < seq.n_blocks:
            self._preempt_one()
        seq.blocks = self.pool.take(seq.n_blocks)
        self.running.append(seq)
        return seq

    def finish(self, seq: Sequence):
        self.running.remove(seq)
        self.pool.put_back(seq.blocks)
        seq.blocks = []

    def resume(self):
        while self.parked and self.pool.n_free >= self.parked[0].n_blocks:
            seq = self.parked.popleft()
            seq.blocks = self.pool.take(seq.n_blocks)
            self.swapper.pull_in(seq.ticket, seq.blocks)
            seq.ticket = None
            self.running.append(seq)
