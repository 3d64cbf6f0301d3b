"""Transfers between device activations and page-locked host memory."""
from dataclasses import dataclass

import torch


@dataclass
class Parked:
    host: torch.Tensor
    landed: torch.cuda.Event
    device: torch.device


class OffloadLane:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.bytes_out = 0

    def push(self, t: torch.Tensor) -> Parked:
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(t, non_blocking=True)
            landed = self.stream.record_event()
        self.bytes_out += host.numel() * host.element_size()
        return Parked(host, landed, t.device)

    def pull(self, parked: Parked) -> torch.Tensor:
        main = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(parked.landed)
            out = parked.host.to(parked.device, non_blocking=True)
        main.wait_stream(self.stream)
        out.record_stream(main)
        return out
