"""Takes a consistent copy of the training state into host memory."""
from dataclasses import dataclass, field
from typing import Dict

import torch


@dataclass
class Snapshot:
    step: int
    tensors: Dict[str, torch.Tensor]
    taken: torch.cuda.Event = field(repr=False)


class Stager:
    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self._host: Dict[str, torch.Tensor] = {}

    def _slot(self, name, t):
        host = self._host.get(name)
        if host is None or host.shape != t.shape:
            host = torch.empty_like(t, device="cpu", pin_memory=True)
            self._host[name] = host
        return host

    def take(self, step: int, named: Dict[str, torch.Tensor]) -> Snapshot:
        main = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(main)
        out = {}
        with torch.cuda.stream(self.stream):
            for name, t in named.items():
                slot = self._slot(name, t)
                slot.copy_(t.detach(), non_blocking=True)
                out[name] = slot
        taken = torch.cuda.Event()
        taken.record(self.stream)
        main.wait_event(taken)
        return Snapshot(step, out, taken)
