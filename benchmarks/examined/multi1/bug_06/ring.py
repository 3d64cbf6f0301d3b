from dataclasses import dataclass, field

import torch


@dataclass
class Slot:
    host: torch.Tensor
    dev: torch.Tensor
    filled: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    freed: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class Ring:
    def __init__(self, depth, shape, device="cuda"):
        self.stream = torch.cuda.Stream(device=device)
        self.slots = [
            Slot(torch.empty(shape, pin_memory=True), torch.empty(shape, device=device))
            for _ in range(depth)
        ]

    def __len__(self):
        return len(self.slots)

    def _slot(self, k):
        return self.slots[k % len(self.slots)]

    def fill(self, k, sample):
        slot = self._slot(k)
        slot.filled.synchronize()
        slot.host.copy_(sample)
        self.stream.wait_event(slot.freed)
        with torch.cuda.stream(self.stream):
            slot.dev.copy_(slot.host, non_blocking=True)
            slot.filled.record()

    def take(self, k):
        slot = self._slot(k)
        torch.cuda.current_stream().wait_event(slot.filled)
        return slot.dev

    def release(self, k):
        self._slot(k).freed.record()
