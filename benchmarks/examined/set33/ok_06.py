"""Camera ring: a capture thread fills page locked frames, the inference thread uploads them."""
import queue
import threading

import numpy as np
import torch
from torch import nn


class FrameSlot:
    """One page locked frame."""

    def __init__(self, height, width):
        self.frame = torch.empty((height, width, 3), dtype=torch.uint8, pin_memory=True)
        self.uploaded = torch.cuda.Event()
        self.index = -1


class CaptureThread(threading.Thread):
    def __init__(self, read_frame, empty, filled):
        super().__init__(name="capture", daemon=True)
        self.read_frame, self.empty, self.filled = read_frame, empty, filled

    def run(self):
        index = 0
        while True:
            slot = self.empty.get()
            if slot is None:
                break
            slot.uploaded.synchronize()
            if not self.read_frame(slot.frame.numpy()):
                break
            slot.index = index
            self.filled.put(slot)
            index += 1
        self.filled.put(None)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=4, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
            nn.Linear(256, 8),
        )

    def forward(self, x):
        return self.net(x)


class LiveDetector:
    def __init__(self, read_frame, height=1080, width=1920, depth=4, device="cuda:0"):
        self.device = torch.device(device)
        self.model = Detector().to(self.device).eval()
        self.empty, self.filled = queue.Queue(), queue.Queue()
        for _ in range(depth):
            self.empty.put(FrameSlot(height, width))
        self.thread = CaptureThread(read_frame, self.empty, self.filled)

    @torch.inference_mode()
    def _infer(self, slot):
        image = slot.frame.to(self.device, non_blocking=True)
        slot.uploaded.record(torch.cuda.current_stream(self.device))
        self.empty.put(slot)
        x = image.permute(2, 0, 1).unsqueeze(0).float().div_(255.0)
        return self.model(x)[0]

    def run(self):
        self.thread.start()
        scores = []
        while True:
            slot = self.filled.get()
            if slot is None:
                break
            scores.append(self._infer(slot))
        self.thread.join()
        return torch.stack(scores).cpu() if scores else torch.empty(0, 8)


class SyntheticCamera:
    def __init__(self, frames):
        self.left = frames
        self.rng = np.random.default_rng(0)

    def __call__(self, out):
        if self.left == 0:
            return False
        self.left -= 1
        out[...] = self.rng.integers(0, 256, size=out.shape, dtype=np.uint8)
        return True
