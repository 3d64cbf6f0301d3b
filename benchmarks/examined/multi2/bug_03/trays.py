import queue
from dataclasses import dataclass
from typing import Optional

import torch


@dataclass
class Tray:
    """One page-locked batch: images and labels."""

    images: torch.Tensor
    labels: torch.Tensor
    count: int = 0
    stamp: Optional[torch.cuda.Event] = None


class TrayRack:
    def __init__(self, n, batch, shape=(3, 224, 224)):
        self.batch = batch
        self.empty: "queue.Queue[Tray]" = queue.Queue()
        self.full: "queue.Queue[Optional[Tray]]" = queue.Queue(maxsize=n)
        for _ in range(n):
            tray = Tray(
                torch.empty((batch,) + shape, dtype=torch.float32, pin_memory=True),
                torch.empty(batch, dtype=torch.int64, pin_memory=True),
            )
            self.empty.put(tray)

    def get_empty(self):
        return self.empty.get()

    def give_full(self, tray):
        self.full.put(tray)

    def close(self):
        self.full.put(None)

    def depth(self):
        """How many trays wait on either side, for the progress bar."""
        return self.empty.qsize(), self.full.qsize()
