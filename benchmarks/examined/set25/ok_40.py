"""Decode thread and conversion thread that share a ring of frame surfaces."""
import threading

import torch


class Surface:
    def __init__(self, height, width, device):
        self.luma = torch.empty(height, width, device=device)
        self.chroma = torch.empty(2, height // 2, width // 2, device=device)
        self.decoded = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class SurfaceRing:
    def __init__(self, count, height, width, device):
        self.surfaces = [Surface(height, width, device) for _ in range(count)]
        self.cond = threading.Condition()
        self.head = self.tail = 0
        self.closed = False
        torch.cuda.synchronize(device)
        for s in self.surfaces:
            s.consumed.record()

    def acquire_for_decode(self):
        with self.cond:
            self.cond.wait_for(lambda: self.head - self.tail < len(self.surfaces))
            return self.surfaces[self.head % len(self.surfaces)]

    def publish(self):
        with self.cond:
            self.head += 1
            self.cond.notify_all()

    def acquire_for_convert(self):
        with self.cond:
            self.cond.wait_for(lambda: self.tail < self.head or self.closed)
            if self.tail == self.head:
                return None
            return self.surfaces[self.tail % len(self.surfaces)]

    def release(self):
        with self.cond:
            self.tail += 1
            self.cond.notify_all()

    def close(self):
        with self.cond:
            self.closed = True
            self.cond.notify_all()


def decode_worker(ring, frames, device):
    torch.cuda.set_device(device)
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for i in range(frames):
            surface = ring.acquire_for_decode()
            stream.wait_event(surface.consumed)
            surface.luma.fill_(16.0 + i % 200).add_(torch.rand_like(surface.luma))
            surface.chroma.uniform_(-0.5, 0.5)
            surface.decoded.record(stream)
            ring.publish()
    ring.close()
    stream.synchronize()


def convert(ring, device):
    stream = torch.cuda.Stream(device)
    means = []
    with torch.cuda.stream(stream):
        while (surface := ring.acquire_for_convert()) is not None:
            stream.wait_event(surface.decoded)
            uv = torch.nn.functional.interpolate(surface.chroma.unsqueeze(0), scale_factor=2)[0]
            red = surface.luma + 1.402 * uv[1]
            blue = surface.luma + 1.772 * uv[0]
            means.append(torch.stack((red.mean(), blue.mean())))
            surface.consumed.record(stream)
            ring.release()
        result = torch.stack(means)
    stream.synchronize()
    return result.cpu()


def main():
    device = torch.device("cuda:0")
    ring = SurfaceRing(4, 1080, 1920, device)
    worker = threading.Thread(target=decode_worker, args=(ring, 120, device))
    worker.start()
    print(convert(ring, device).mean(0))
    worker.join()


if __name__ == "__main__":
    main()
