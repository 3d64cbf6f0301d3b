"""Fixed device slots that are refilled while the model trains on the other one."""
from collections import deque
from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Slot:
    x: torch.Tensor
    y: torch.Tensor
    ready: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    free: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class SlotFeeder:
    def __init__(self, loader, batch, width, depth=2):
        self.loader = loader
        self.copy_stream = torch.cuda.Stream()
        self.slots = [
            Slot(torch.empty(batch, width, device="cuda"), torch.empty(batch, dtype=torch.long, device="cuda"))
            for _ in range(depth)
        ]
        self.copy_stream.wait_stream(torch.cuda.current_stream())

    def _fill(self, slot, x, y):
        self.copy_stream.wait_event(slot.free)
        with torch.cuda.stream(self.copy_stream):
            slot.x.copy_(x, non_blocking=True)
            slot.y.copy_(y, non_blocking=True)
            slot.ready.record(self.copy_stream)

    def _serve(self, slot):
        compute = torch.cuda.current_stream()
        compute.wait_event(slot.ready)
        yield slot.x, slot.y
        slot.free.record(compute)

    def __iter__(self):
        pending = deque()
        for i, (x, y) in enumerate(self.loader):
            slot = self.slots[i % len(self.slots)]
            self._fill(slot, x, y)
            pending.append(slot)
            if len(pending) == len(self.slots):
                yield from self._serve(pending.popleft())
        while pending:
            yield from self._serve(pending.popleft())


def main():
    data = TensorDataset(torch.randn(8192, 256), torch.randint(0, 10, (8192,)))
    loader = DataLoader(data, batch_size=256, shuffle=True, pin_memory=True, drop_last=True)
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    criterion = nn.CrossEntropyLoss()
    feeder = SlotFeeder(loader, 256, 256)
    for epoch in range(5):
        for x, y in feeder:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
