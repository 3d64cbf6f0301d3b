"""Feeds numpy frames through a model using a fixed ring of staging slots."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterable

import numpy as np
import torch


@dataclass
class Slot:
    host: torch.Tensor
    device: torch.Tensor
    uploaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    consumed: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class FrameRing:
    def __init__(self, depth: int, shape: tuple[int, ...], device: torch.device) -> None:
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.slots = [
            Slot(
                host=torch.empty(shape, dtype=torch.uint8, pin_memory=True),
                device=torch.empty(shape, dtype=torch.uint8, device=device),
            )
            for _ in range(depth)
        ]
        self.copy_stream.wait_stream(torch.cuda.current_stream(device))

    def _upload(self, slot: Slot, frame: np.ndarray) -> None:
        slot.uploaded.synchronize()
        slot.host.copy_(torch.from_numpy(frame))
        self.copy_stream.wait_event(slot.consumed)
        with torch.cuda.stream(self.copy_stream):
            slot.device.copy_(slot.host, non_blocking=True)
        slot.uploaded.record(self.copy_stream)

    def process(
        self, frames: Iterable[np.ndarray], fn: Callable[[torch.Tensor], torch.Tensor]
    ) -> list[torch.Tensor]:
        compute = torch.cuda.current_stream(self.device)
        depth = len(self.slots)
        pending: list[Slot] = []
        results: list[torch.Tensor] = []

        def consume() -> None:
            slot = pending.pop(0)
            compute.wait_event(slot.uploaded)
            slot.device.record_stream(compute)
            try:
                results.append(fn(slot.device.float().mul_(1.0 / 255)))
            finally:
                slot.consumed.record(compute)

        try:
            for index, frame in enumerate(frames):
                slot = self.slots[index % depth]
                if len(pending) == depth:
                    consume()
                self._upload(slot, frame)
                pending.append(slot)
            while pending:
                consume()
        finally:
            compute.wait_stream(self.copy_stream)
        return results


def main() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1)
    ).to(device)
    ring = FrameRing(3, (1, 3, 720, 1280), device)
    rng = np.random.default_rng(0)
    frames = (rng.integers(0, 255, (1, 3, 720, 1280), dtype=np.uint8) for _ in range(32))
    with torch.no_grad():
        out = torch.stack(ring.process(frames, net))
    print(out.mean().item())


if __name__ == "__main__":
    main()
