"""Frame ring: a decoder fills device frames, consumers lease them and give them back."""
import weakref
from collections import deque

import torch


class Lease:
    def __init__(self, ring, index, tensor):
        self._ring = weakref.ref(ring)
        self._index = index
        self.tensor = tensor

    def __enter__(self):
        return self.tensor

    def __exit__(self, *exc):
        self.release()

    def release(self):
        if self.tensor is None:
            return
        self.tensor = None
        ring = self._ring()
        if ring is not None:
            ring._give_back(self._index)


class FrameRing:
    def __init__(self, reader, height, width, depth=4, device="cuda"):
        self.reader = reader
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.staging = [torch.empty(height, width, 3, dtype=torch.uint8, pin_memory=True)
                        for _ in range(depth)]
        with torch.cuda.stream(self.stream):
            self.frames = [torch.empty(3, height, width, device=self.device) for _ in range(depth)]
        self.uploaded = [torch.cuda.Event() for _ in range(depth)]
        self.returned = [None] * depth
        self.idle = deque(range(depth))
        self.filled = deque()
        self.exhausted = False

    def _fill(self):
        while self.idle and not self.exhausted:
            raw = self.reader()
            if raw is None:
                self.exhausted = True
                return
            i = self.idle.popleft()
            self.uploaded[i].synchronize()
            self.staging[i].copy_(torch.as_tensor(raw))
            with torch.cuda.stream(self.stream):
                if self.returned[i] is not None:
                    self.stream.wait_event(self.returned[i])
                gpu = self.staging[i].to(self.device, non_blocking=True)
                self.frames[i].copy_(gpu.permute(2, 0, 1))
                self.frames[i].mul_(1 / 255)
                self.uploaded[i].record()
            self.filled.append(i)

    def _give_back(self, index):
        self.returned[index] = torch.cuda.current_stream(self.device).record_event()
        self.idle.append(index)

    def lease(self):
        self._fill()
        if not self.filled:
            if self.exhausted:
                return None
            raise RuntimeError("every frame is leased")
        i = self.filled.popleft()
        frame = self.frames[i]
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self.uploaded[i])
        frame.record_stream(stream)
        return Lease(self, i, frame)


def motion_energy(reader, height, width):
    ring = FrameRing(reader, height, width)
    previous, energy = None, []
    while (current := ring.lease()) is not None:
        if previous is not None:
            with previous as old:
                energy.append((current.tensor - old).abs().mean())
        previous = current
    if previous is not None:
        previous.release()
    return torch.stack(energy).tolist() if energy else []
