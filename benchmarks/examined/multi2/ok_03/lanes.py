import queue
from dataclasses import dataclass, field

import torch


@dataclass
class Cell:
    host: torch.Tensor
    sent: torch.cuda.Event = field(default_factory=lambda: torch.cuda.Event(blocking=True))
    used: bool = False
    length: int = 0


class CellLoop:
    """Cells go round: writer -> sender -> writer."""

    def __init__(self, n, capacity):
        self.back = queue.SimpleQueue()
        self.ready = queue.SimpleQueue()
        for _ in range(n):
            self.back.put(Cell(torch.empty(capacity, dtype=torch.int64, pin_memory=True)))

    def claim(self) -> Cell:
        cell = self.back.get()
        if cell.used:
            cell.sent.synchronize()
        return cell

    def offer(self, cell):
        self.ready.put(cell)

    def recycle(self, cell):
        cell.used = True
        self.back.put(cell)

    def stop(self):
        self.ready.put(None)
