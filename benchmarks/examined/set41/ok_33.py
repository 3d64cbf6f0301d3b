"""Raw video writer: pinned ring slots travel with their events to the writer thread."""
import argparse
import queue
import threading
from dataclasses import dataclass
from typing import BinaryIO, List, NamedTuple, Optional

import torch


@dataclass
class StreamSpec:
    height: int = 720
    width: int = 1280
    batch: int = 8
    ring: int = 3


class Ticket(NamedTuple):
    slot: int
    count: int
    landed: torch.cuda.Event


class Ring:
    def __init__(self, spec: StreamSpec):
        shape = (spec.batch, spec.height, spec.width, 3)
        self.buf: List[torch.Tensor] = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(spec.ring)]
        self.idle: "queue.Queue[int]" = queue.Queue()
        for i in range(spec.ring):
            self.idle.put(i)


class RawWriter(threading.Thread):
    def __init__(self, ring: Ring, out: BinaryIO):
        super().__init__(daemon=True)
        self.ring, self.out = ring, out
        self.todo: "queue.Queue[Optional[Ticket]]" = queue.Queue()
        self.bytes = 0

    def _consume(self, t: Ticket) -> None:
        t.landed.synchronize()
        data = self.ring.buf[t.slot][:t.count].numpy()
        self.out.write(memoryview(data.reshape(-1)))
        self.bytes += data.nbytes

    def run(self) -> None:
        while True:
            t = self.todo.get()
            if t is None:
                return
            self._consume(t)
            self.ring.idle.put(t.slot)


class Downloader:
    def __init__(self, ring: Ring, writer: RawWriter, device: torch.device):
        self.ring, self.writer = ring, writer
        self.stream = torch.cuda.Stream(device)

    def send(self, frames: torch.Tensor) -> None:
        slot = self.ring.idle.get()
        n = frames.shape[0]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.ring.buf[slot][:n].copy_(frames, non_blocking=True)
            landed = torch.cuda.Event()
            landed.record()
        frames.record_stream(self.stream)
        self.writer.todo.put(Ticket(slot, n, landed))


class Effect:
    def __init__(self, spec: StreamSpec, device: torch.device):
        self.spec, self.device = spec, device
        ys = torch.linspace(-1, 1, spec.height, device=device)
        xs = torch.linspace(-1, 1, spec.width, device=device)
        self.r = (ys[:, None] ** 2 + xs[None] ** 2).sqrt()

    def batch(self, start: int) -> torch.Tensor:
        t = torch.arange(start, start + self.spec.batch, device=self.device).view(-1, 1, 1)
        wave = (self.r * 20 - t * 0.3).sin()
        rgb = torch.stack([wave, wave.roll(10, 2), -wave], -1)
        return rgb.add(1).mul(127.5).to(torch.uint8)


class Show:
    def __init__(self, spec: StreamSpec, out: BinaryIO):
        self.device = torch.device("cuda")
        self.ring = Ring(spec)
        self.writer = RawWriter(self.ring, out)
        self.down = Downloader(self.ring, self.writer, self.device)
        self.fx = Effect(spec, self.device)
        self.spec = spec

    @torch.inference_mode()
    def play(self, batches: int) -> int:
        self.writer.start()
        for b in range(batches):
            self.down.send(self.fx.batch(b * self.spec.batch))
        self.writer.todo.put(None)
        self.writer.join()
        return self.writer.bytes


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("out")
    ap.add_argument("--batches", type=int, default=40)
    args = ap.parse_args()
    with open(args.out, "wb") as f:
        print(Show(StreamSpec(), f).play(args.batches), "bytes")


if __name__ == "__main__":
    main()
