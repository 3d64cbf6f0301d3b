from collections import deque

import torch


class KeepAlive:
    """Holds tensors until the event they were handed in with has passed."""

    def __init__(self):
        self._held = deque()

    def hold(self, event, *tensors):
        self._held.append((event, tensors))
        self.sweep()

    def sweep(self):
        while self._held and self._held[0][0].query():
            self._held.popleft()

    def drain(self):
        while self._held:
            self._held.popleft()[0].synchronize()


class Archive:
    """Appends compressed frames to a host-side log."""

    def __init__(self, frames, shape):
        self.stream = torch.cuda.Stream()
        self.keep = KeepAlive()
        self.log = torch.empty(frames, *shape, dtype=torch.uint8, pin_memory=True)
        self.count = 0

    def append(self, frame):
        produced = torch.cuda.current_stream().record_event()
        self.stream.wait_event(produced)
        with torch.cuda.stream(self.stream):
            self.log[self.count].copy_(frame, non_blocking=True)
            done = self.stream.record_event()
        self.keep.hold(done, frame)
        self.count += 1

    def finish(self):
        self.keep.drain()
        return self.log[: self.count].numpy()


def simulate(steps=300, side=512):
    u = torch.rand(side, side, device="cuda")
    v = torch.rand(side, side, device="cuda")
    archive = Archive(steps, (side, side))
    for _ in range(steps):
        lap = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u
        uvv = u * v * v
        u = (u + 0.2 * lap - uvv + 0.03 * (1 - u)).clamp(0, 1)
        v = (v + uvv - 0.09 * v).clamp(0, 1)
        archive.append(u.mul(255).to(torch.uint8))
    return archive.finish()


if __name__ == "__main__":
    movie = simulate()
    print(movie.shape, movie[-1].mean())
