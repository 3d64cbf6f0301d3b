"""Real-time frame output: tensors leave the GPU on a copy stream, a thread encodes them."""
import queue
import threading
import time
import zlib

import torch
import torch.nn as nn


class FrameSlot:
    def __init__(self, h, w):
        self.pixels = torch.empty(h, w, 3, dtype=torch.uint8, pin_memory=True)
        self.stamp = torch.cuda.Event()
        self.index = -1


class FrameSink:
    """Takes float frames on the GPU and queues them for the encoder."""

    def __init__(self, h, w, slots=4):
        self.stream = torch.cuda.Stream()
        self.free = queue.Queue()
        self.ready = queue.Queue()
        for _ in range(slots):
            self.free.put(FrameSlot(h, w))

    def push(self, index, frame):
        slot = self.free.get()
        slot.index = index
        rgb = frame.clamp(0, 1).mul(255).to(torch.uint8).permute(1, 2, 0).contiguous()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            slot.stamp.record()
            slot.pixels.copy_(rgb, non_blocking=True)
        rgb.record_stream(self.stream)
        self.ready.put(slot)

    def end(self):
        self.ready.put(None)


class Encoder(threading.Thread):
    def __init__(self, sink):
        super().__init__(daemon=True)
        self.sink = sink
        self.sizes = []
        self.digest = 0

    def run(self):
        while True:
            slot = self.sink.ready.get()
            if slot is None:
                return
            slot.stamp.synchronize()
            payload = zlib.compress(slot.pixels.numpy(), 1)
            self.sizes.append((slot.index, len(payload)))
            self.digest = zlib.crc32(payload, self.digest)
            self.sink.free.put(slot)


class Painter(nn.Module):
    def __init__(self, h, w, width=64):
        super().__init__()
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        self.register_buffer("grid", torch.stack([xs, ys])[None])
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 1), nn.SiLU(), nn.Conv2d(width, width, 3, 1, 1), nn.SiLU(),
            nn.Conv2d(width, 3, 1), nn.Sigmoid())

    def forward(self, t):
        phase = torch.full_like(self.grid[:, :1], t)
        return self.net(torch.cat([self.grid, phase], dim=1))[0]


@torch.no_grad()
def render(painter, sink, n):
    begin = time.perf_counter()
    for i in range(n):
        sink.push(i, painter(i / n))
    sink.end()
    return time.perf_counter() - begin


def main():
    torch.manual_seed(0)
    h, w = 1080, 1920
    painter = Painter(h, w).cuda().eval()
    sink = FrameSink(h, w)
    encoder = Encoder(sink)
    encoder.start()
    seconds = render(painter, sink, 120)
    encoder.join()
    print(f"{len(encoder.sizes)} frames, {seconds:.2f}s, crc {encoder.digest:08x}")


if __name__ == "__main__":
    main()
