import numpy as np
import torch

from ring import UploadRing


class Averager:
    def __init__(self, width):
        self.window = torch.hann_window(width, device="cuda")
        self.power = torch.zeros(width // 2 + 1, device="cuda")
        self.count = 0

    def add(self, frames):
        frames.mul_(self.window)
        self.power += torch.fft.rfft(frames).abs().square().sum(dim=0)
        self.count += frames.shape[0]

    def result(self):
        return (self.power / max(self.count, 1)).cpu().numpy()


def chunks(total, rows, width, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(total):
        yield rng.standard_normal((rows, width), dtype=np.float32)


def welch(total=100, rows=256, width=1024):
    ring = UploadRing((rows, width))
    avg = Averager(width)
    left = total
    source = chunks(total, rows, width)
    ring.push(next(source))
    while left:
        nxt = next(source, None)
        if nxt is not None:
            ring.push(nxt)
        with ring.pop() as frames:
            avg.add(frames)
        left -= 1
    return avg.result()
