from dataclasses import dataclass

import torch


@dataclass
class Slot:
    host: torch.Tensor
    dev: torch.Tensor
    stream: torch.cuda.Stream
    ready: torch.cuda.Event

    def settle(self):
        self.stream.synchronize()

    def fence(self):
        self.stream.wait_stream(torch.cuda.current_stream())

    def upload(self):
        with torch.cuda.stream(self.stream):
            self.dev.copy_(self.host, non_blocking=True)

    def mark(self):
        self.ready.record(self.stream)

    def wait(self):
        torch.cuda.current_stream().wait_event(self.ready)


def make_slots(count, shape, device="cuda"):
    slots = []
    for _ in range(count):
        host = torch.empty(shape, pin_memory=True)
        dev = torch.empty(shape, device=device)
        slots.append(Slot(host, dev, torch.cuda.Stream(device=device), torch.cuda.Event()))
    return slots
