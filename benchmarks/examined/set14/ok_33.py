import subprocess

import numpy as np
import torch
import torch.nn.functional as F


class RawVideo:
    """Reads rgb24 frames from an ffmpeg pipe into one reused buffer."""

    def __init__(self, path, width, height):
        self.width, self.height = width, height
        self.frame = np.empty((height, width, 3), dtype=np.uint8)
        command = ["ffmpeg", "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)

    def __iter__(self):
        view = memoryview(self.frame).cast("B")
        while True:
            filled = 0
            while filled < len(view):
                count = self.process.stdout.readinto(view[filled:])
                if not count:
                    return
                filled += count
            yield self.frame


class SceneCutDetector:
    def __init__(self, device="cuda", bins=32, threshold=0.35):
        self.device = torch.device(device)
        self.bins = bins
        self.threshold = threshold
        self.last = None
        self.scores = []

    def _histogram(self, frame):
        image = torch.from_numpy(frame).to(self.device, non_blocking=True)
        image = image.permute(2, 0, 1).float().unsqueeze(0)
        small = F.interpolate(image, size=(180, 320), mode="area")[0]
        bucket = (small / 256.0 * self.bins).long().clamp_(0, self.bins - 1)
        bucket += torch.arange(3, device=self.device)[:, None, None] * self.bins
        counts = torch.zeros(3 * self.bins, device=self.device)
        counts.index_add_(0, bucket.flatten(), torch.ones(bucket.numel(), device=self.device))
        return counts / bucket.numel()

    def feed(self, frame):
        histogram = self._histogram(frame)
        if self.last is not None:
            self.scores.append((histogram - self.last).abs().sum())
        self.last = histogram

    def cuts(self):
        if not self.scores:
            return []
        scores = torch.stack(self.scores).cpu()
        return (torch.nonzero(scores > self.threshold).flatten() + 1).tolist()


def detect(path, width, height):
    detector = SceneCutDetector()
    for frame in RawVideo(path, width, height):
        detector.feed(frame)
    return detector.cuts()
