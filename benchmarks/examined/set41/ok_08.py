"""Hardware-style surface pool: decode stream fills, preview stream reads, surfaces recycle."""
from collections import deque

import torch


class Surface:
    def __init__(self, h, w):
        self.data = torch.zeros(h, w, device="cuda")
        self.decoded = torch.cuda.Event()
        self.unmapped = torch.cuda.Event()


class SurfacePool:
    def __init__(self, n, h, w):
        self.idle = deque(Surface(h, w) for _ in range(n))
        torch.cuda.synchronize()

    def map(self, stream):
        surf = self.idle.popleft()
        stream.wait_event(surf.unmapped)
        return surf

    def unmap(self, surf, stream):
        surf.unmapped.record(stream)
        self.idle.append(surf)


class Decoder:
    def __init__(self, pool):
        self.pool = pool
        self.stream = torch.cuda.Stream()
        self.ticks = 0

    def decode(self):
        surf = self.pool.map(self.stream)
        self.ticks += 1
        with torch.cuda.stream(self.stream):
            surf.data.fill_(float(self.ticks))
            for _ in range(8):
                surf.data.mul_(0.99).add_(1.0)
            surf.decoded.record()
        return surf


class Preview:
    def __init__(self, pool, h, w):
        self.pool = pool
        self.canvas = torch.zeros(h // 4, w // 4, device="cuda")
        torch.cuda.synchronize()

    def show(self, surf):
        here = torch.cuda.current_stream()
        here.wait_event(surf.decoded)
        small = surf.data.view(self.canvas.shape[0], 4, self.canvas.shape[1], 4).mean((1, 3))
        self.pool.unmap(surf, here)
        self.canvas.lerp_(small, 0.1)


class Player:
    def __init__(self, h=1080, w=1920, surfaces=3):
        self.pool = SurfacePool(surfaces, h, w)
        self.decoder = Decoder(self.pool)
        self.preview = Preview(self.pool, h, w)
        self.ahead = deque()

    def play(self, frames):
        for _ in range(2):
            self.ahead.append(self.decoder.decode())
        for i in range(frames):
            self.preview.show(self.ahead.popleft())
            if i + 2 < frames:
                self.ahead.append(self.decoder.decode())
        return self.preview.canvas.mean().item()


def main():
    player = Player()
    screen = torch.cuda.Stream()
    with torch.cuda.stream(screen):
        print(player.play(200))


if __name__ == "__main__":
    main()
