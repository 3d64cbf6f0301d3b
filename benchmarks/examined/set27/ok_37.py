"""Frame interpolation with a captured graph; the encoder thread owns a slot until it has read it."""
import queue
import threading

import numpy as np
import torch
import torch.nn as nn


class InterpolationNet(nn.Module):
    def __init__(self, feat=48):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(7, feat, 3, padding=1), nn.LeakyReLU(0.1),
            nn.Conv2d(feat, feat, 3, padding=1), nn.LeakyReLU(0.1),
            nn.Conv2d(feat, 1, 3, padding=1), nn.Sigmoid(),
        )

    def forward(self, a, b, t):
        mask = self.body(torch.cat([a, b, t], dim=1))
        return a * mask + b * (1.0 - mask)


class OutputSlot:
    def __init__(self, shape):
        self.tensor = torch.empty(shape, device="cuda", dtype=torch.half)
        self.ready = torch.cuda.Event()


class Interpolator:
    def __init__(self, height, width, num_slots=4):
        self.stream = torch.cuda.Stream()
        self.net = InterpolationNet().cuda().half().eval()
        shape = (1, 3, height, width)
        self.prev = torch.zeros(shape, device="cuda", dtype=torch.half)
        self.next = torch.zeros_like(self.prev)
        self.t = torch.zeros(1, 1, height, width, device="cuda", dtype=torch.half)
        self.free = queue.Queue()
        for _ in range(num_slots):
            self.free.put(OutputSlot(shape))
        torch.cuda.synchronize()
        self._capture()

    @torch.inference_mode()
    def _capture(self):
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.net(self.prev, self.next, self.t)
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.static_out = self.net(self.prev, self.next, self.t)

    @torch.inference_mode()
    def push(self, frame):
        with torch.cuda.stream(self.stream):
            self.prev.copy_(self.next)
            self.next.copy_(frame, non_blocking=True)

    @torch.inference_mode()
    def produce(self, timestep):
        slot = self.free.get()
        with torch.cuda.stream(self.stream):
            self.t.fill_(timestep)
            self.graph.replay()
            slot.tensor.copy_(self.static_out)
            slot.ready.record(self.stream)
        return slot


class Encoder(threading.Thread):
    def __init__(self, path, free):
        super().__init__()
        self.path = path
        self.free = free
        self.queue = queue.Queue(maxsize=32)
        self.count = 0

    def run(self):
        stream = torch.cuda.Stream()
        with open(self.path, "wb") as sink, torch.inference_mode():
            while True:
                slot = self.queue.get()
                if slot is None:
                    return
                with torch.cuda.stream(stream):
                    stream.wait_event(slot.ready)
                    image = slot.tensor[0].permute(1, 2, 0).mul(255.0).clamp(0, 255).byte().cpu()
                self.free.put(slot)
                sink.write(image.numpy().tobytes())
                self.count += 1


def synthetic_frames(count, height, width):
    gen = np.random.default_rng(0)
    base = gen.random((3, height, width), dtype=np.float32)
    for i in range(count):
        yield torch.from_numpy(np.roll(base, 3 * i, axis=2)).half().unsqueeze(0)


def main(height=540, width=960, factor=4, count=64):
    model = Interpolator(height, width)
    encoder = Encoder("/tmp/out.rgb", model.free)
    encoder.start()
    for i, frame in enumerate(synthetic_frames(count, height, width)):
        model.push(frame)
        if i == 0:
            continue
        for k in range(factor):
            encoder.queue.put(model.produce(k / factor))
    encoder.queue.put(None)
    encoder.join()
    print(encoder.count)


if __name__ == "__main__":
    main()
