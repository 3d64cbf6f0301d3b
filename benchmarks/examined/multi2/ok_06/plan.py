from dataclasses import dataclass
from typing import Any, Optional

import torch


@dataclass
class Stage:
    name: str
    fn: Any
    repeat: int = 1


@dataclass
class Parcel:
    """A tensor with the event behind which it is complete."""

    tensor: torch.Tensor
    event: Optional[torch.cuda.Event] = None

    @classmethod
    def sealed(cls, tensor):
        ev = torch.cuda.Event()
        ev.record()
        return cls(tensor, ev)

    def open(self):
        here = torch.cuda.current_stream()
        if self.event is not None:
            here.wait_event(self.event)
        self.tensor.record_stream(here)
        return self.tensor
