from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch


@dataclass
class Slot:
    host: torch.Tensor
    dev: torch.Tensor
    loaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    freed: torch.cuda.Event = field(default_factory=torch.cuda.Event)


def make_slot(shape, dtype, device):
    slot = Slot(
        host=torch.empty(shape, dtype=dtype, pin_memory=True),
        dev=torch.empty(shape, dtype=dtype, device=device),
    )
    slot.freed.record(torch.cuda.current_stream(device))
    return slot


class UploadRing:
    def __init__(self, shape, dtype=torch.float32, device="cuda", slots=2):
        self.device = torch.device(device)
        self._up = torch.cuda.Stream(device=self.device)
        self._free = deque(make_slot(shape, dtype, self.device) for _ in range(slots))
        self._full = deque()

    def room(self):
        return len(self._free)

    def push(self, array):
        slot = self._free.popleft()
        slot.loaded.synchronize()
        slot.host.copy_(torch.from_numpy(array))
        with torch.cuda.stream(self._up):
            self._up.wait_event(slot.freed)
            slot.dev.copy_(slot.host, non_blocking=True)
            slot.loaded.record(self._up)
        self._full.append(slot)

    @contextmanager
    def pop(self):
        slot = self._full.popleft()
        torch.cuda.current_stream(self.device).wait_event(slot.loaded)
        try:
            yield slot.dev
        finally:
            slot.freed.record(torch.cuda.current_stream(self.device))
            self._free.append(slot)
