"""Frames go through upload, preparation, inference and download, each on its own stream."""
from collections import deque

import numpy as np
import torch
from torch import nn


class Slot:
    def __init__(self, shape, classes, device):
        self.raw = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.frame = torch.empty(shape, dtype=torch.uint8, device=device)
        self.planes = torch.empty(1, 3, *shape[:2], device=device)
        self.scores = torch.empty(classes, *shape[:2], device=device)
        self.overlay = torch.empty(shape, dtype=torch.uint8, device=device)
        self.result = torch.empty(shape, dtype=torch.uint8, pin_memory=True)
        self.uploaded = torch.cuda.Event()
        self.prepared = torch.cuda.Event()
        self.inferred = torch.cuda.Event()
        self.done = torch.cuda.Event()


class SegmentationNet(nn.Module):
    def __init__(self, classes, width=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, classes, 1),
        )

    def forward(self, x):
        return self.layers(x)


class FramePipeline:
    def __init__(self, height, width, classes=8, depth=3, device="cuda"):
        self.device = torch.device(device)
        self.model = SegmentationNet(classes).to(self.device).eval()
        self.palette = torch.randint(0, 255, (classes, 3), dtype=torch.uint8, device=device)
        self.mean = torch.tensor([0.48, 0.46, 0.41], device=device).view(1, 3, 1, 1)
        self.upload, self.prepare, self.infer, self.download = (
            torch.cuda.Stream(device=self.device) for _ in range(4)
        )
        self.free = deque(Slot((height, width, 3), classes, self.device) for _ in range(depth))
        self.busy = deque()
        torch.cuda.synchronize(self.device)

    @torch.inference_mode()
    def submit(self, image):
        """Returns the oldest result when every slot is taken, otherwise None."""
        finished = self.collect() if not self.free else None
        slot = self.free.popleft()
        slot.raw.numpy()[...] = image
        with torch.cuda.stream(self.upload):
            slot.frame.copy_(slot.raw, non_blocking=True)
            slot.uploaded.record()
        with torch.cuda.stream(self.prepare):
            slot.uploaded.wait()
            planes = slot.frame.permute(2, 0, 1).unsqueeze(0).float().div_(255)
            slot.planes.copy_(planes.sub_(self.mean))
            slot.prepared.record()
        with torch.cuda.stream(self.infer):
            slot.prepared.wait()
            slot.scores.copy_(self.model(slot.planes)[0])
            colours = self.palette[slot.scores.argmax(dim=0)]
            slot.overlay.copy_(slot.frame // 2 + colours // 2)
            slot.inferred.record()
        with torch.cuda.stream(self.download):
            slot.inferred.wait()
            slot.result.copy_(slot.overlay, non_blocking=True)
            slot.done.record()
        self.busy.append(slot)
        return finished

    def collect(self):
        if not self.busy:
            return None
        slot = self.busy.popleft()
        slot.done.synchronize()
        image = slot.result.numpy().copy()
        self.free.append(slot)
        return image

    def drain(self):
        while self.busy:
            yield self.collect()


def run(frames):
    pipeline = FramePipeline(*frames[0].shape[:2])
    results = [r for r in map(pipeline.submit, frames) if r is not None]
    results.extend(pipeline.drain())
    return results


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    print(len(run([rng.integers(0, 255, (720, 1280, 3), dtype=np.uint8) for _ in range(12)])))
