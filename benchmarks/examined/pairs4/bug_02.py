"""Radar cube ingestion for a perception stack."""
import numpy as np
import torch


class StagingLane:
    """One page-locked buffer plus the marker of its last transfer."""

    def __init__(self, shape):
        self.buffer = torch.empty(shape, dtype=torch.float32, pin_memory=True)
        self.view = self.buffer.numpy()
        self.marker = torch.cuda.Event()


class CubeFeeder:
    def __init__(self, shape, lanes=2):
        self.lanes = [StagingLane(shape) for _ in range(lanes)]
        self.frames = 0

    def feed(self, cube, out):
        lane = self.lanes[self.frames % len(self.lanes)]
        lane.marker.synchronize()
        np.copyto(lane.view, cube)
        lane.marker.record()
        out.copy_(lane.buffer, non_blocking=True)
        self.frames += 1
        return out


class RangeDoppler:
    def __init__(self, shape):
        self.window = torch.hann_window(shape[-1], device="cuda")
        self.cube = torch.empty(shape, device="cuda")
        self.average = torch.zeros(shape[0], shape[1], shape[2] // 2 + 1, device="cuda")

    def step(self, feeder, raw):
        feeder.feed(raw, self.cube)
        spectrum = torch.fft.rfft(self.cube * self.window, dim=-1).abs()
        self.average.lerp_(spectrum, 0.1)


def capture(frames, shape, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(frames):
        yield rng.standard_normal(shape, dtype=np.float32)


def main():
    shape = (16, 256, 512)
    feeder = CubeFeeder(shape)
    processor = RangeDoppler(shape)
    for raw in capture(300, shape):
        processor.step(feeder, raw)
    print("peak", processor.average.max().item())


if __name__ == "__main__":
    main()
