"""Frame producer and consumer threads that pass slots around in both directions."""
import queue
import threading
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Slot:
    index: int
    frame: torch.Tensor
    filled: torch.cuda.Event
    drained: torch.cuda.Event


class SlotRing:
    def __init__(self, count, shape, device="cuda"):
        self.empty: "queue.Queue[Slot]" = queue.Queue()
        self.full: "queue.Queue[Slot | None]" = queue.Queue()
        for i in range(count):
            frame = torch.zeros(shape, device=device)
            self.empty.put(Slot(i, frame, torch.cuda.Event(), torch.cuda.Event()))
        torch.cuda.synchronize()


class Producer(threading.Thread):
    def __init__(self, ring: SlotRing, frames: int, shape):
        super().__init__(daemon=True)
        self.ring = ring
        self.frames = frames
        self.shape = shape
        self.stream = torch.cuda.Stream()

    def run(self):
        grid = None
        with torch.cuda.stream(self.stream):
            grid = torch.linspace(0, 1, self.shape[-1], device="cuda").expand(self.shape)
            for n in range(self.frames):
                slot = self.ring.empty.get()
                self.stream.wait_event(slot.drained)
                torch.sin(grid * (n + 1), out=slot.frame)
                slot.filled.record(self.stream)
                self.ring.full.put(slot)
        self.ring.full.put(None)


class Consumer:
    def __init__(self, ring: SlotRing, channels):
        self.ring = ring
        self.stream = torch.cuda.Stream()
        self.net = nn.Sequential(
            nn.Conv2d(channels, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 8, 5, padding=2)
        ).cuda().eval()
        torch.cuda.synchronize()
        self.energy = None

    @torch.no_grad()
    def run(self):
        with torch.cuda.stream(self.stream):
            self.energy = torch.zeros((), device="cuda")
            while True:
                slot = self.ring.full.get()
                if slot is None:
                    break
                self.stream.wait_event(slot.filled)
                normalized = (slot.frame - 0.5) * 2.0
                slot.drained.record(self.stream)
                self.ring.empty.put(slot)
                self.energy += self.net(normalized).square().mean()
            host = torch.empty((), pin_memory=True)
            host.copy_(self.energy, non_blocking=True)
        self.stream.synchronize()
        return float(host)


def main():
    shape = (4, 3, 540, 960)
    ring = SlotRing(3, shape)
    producer = Producer(ring, 200, shape)
    consumer = Consumer(ring, channels=3)
    producer.start()
    print(consumer.run())
    producer.join()


if __name__ == "__main__":
    main()
