"""Cascade tracker: proposals on one stream, refinement on another."""
import torch
from torch import nn


class Proposer:
    def __init__(self):
        self.net = nn.Sequential(nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.Conv2d(16, 1, 3)).cuda().eval()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def run(self, frame):
        with torch.cuda.stream(self.stream):
            heat = self.net(frame).flatten()
            features = torch.nn.functional.avg_pool2d(frame, 4)
        return heat, features


class Refiner:
    def __init__(self):
        self.net = nn.Linear(3, 4).cuda().eval()

    def run(self, features, where):
        h, w = features.shape[-2:]
        ys, xs = where // w % h, where % w
        cells = features[0, :, ys, xs].T
        return self.net(cells)


class Tracker:
    """Keeps the strongest cells."""

    def __init__(self, k=32):
        self.proposer, self.refiner, self.k = Proposer(), Refiner(), k
        self.level = torch.zeros((), device="cuda")

    @torch.inference_mode()
    def step(self, host_frame):
        frame = host_frame.cuda()
        heat, features = self.proposer.run(frame)
        frame.record_stream(self.proposer.stream)
        level = float(self.level.cpu())
        strong = (heat > level).nonzero().flatten()[: self.k]
        boxes = self.refiner.run(features, strong)
        self.level.lerp_(heat.mean(), 0.05)
        torch.cuda.synchronize()
        return boxes


def main():
    tracker = Tracker()
    count = 0
    for _ in range(200):
        frame = torch.rand(1, 3, 384, 640).pin_memory()
        count += len(tracker.step(frame))
    print(count)


if __name__ == "__main__":
    main()
