"""Depth camera viewer: frames are uploaded once and shared by several processing blocks."""
import numpy as np
import torch
import torch.nn.functional as F


class FrameUploader:
    """Keeps one device copy of the newest frame, staged through a ring of page-locked slots."""

    def __init__(self, shape, slots=3):
        self.stream = torch.cuda.Stream()
        self.staging = [torch.empty(shape, dtype=torch.int16).pin_memory() for _ in range(slots)]
        self.staged = [torch.cuda.Event() for _ in range(slots)]
        self.device_frame = torch.empty(shape, dtype=torch.int16, device="cuda")
        self.ready = torch.cuda.Event()
        self.index = 0
        torch.cuda.synchronize()

    def upload(self, frame):
        slot = self.index % len(self.staging)
        self.index += 1
        self.staged[slot].synchronize()
        self.staging[slot].copy_(torch.from_numpy(frame))
        with torch.cuda.stream(self.stream):
            self.device_frame.copy_(self.staging[slot], non_blocking=True)
            self.staged[slot].record(self.stream)
            self.ready.record(self.stream)
        return self.device_frame


class ProcessingBlock:
    def __init__(self, uploader):
        self.uploader = uploader
        self.stream = torch.cuda.Stream()

    def __call__(self, frame):
        self.stream.wait_event(self.uploader.ready)
        with torch.cuda.stream(self.stream):
            return self.process(frame)

    def process(self, frame):
        raise NotImplementedError


class HoleFilling(ProcessingBlock):
    def process(self, frame):
        depth = frame.float()[None, None]
        for _ in range(6):
            filled = F.max_pool2d(depth, 5, stride=1, padding=2)
            depth = torch.where(frame[None, None] == 0, filled, depth)
        return depth


class PointCloud(ProcessingBlock):
    def __init__(self, uploader, shape, fx=600.0, fy=600.0):
        super().__init__(uploader)
        h, w = shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        self.rays = torch.stack([(xs - w / 2) / fx, (ys - h / 2) / fy, torch.ones_like(xs)], -1).float().cuda()
        torch.cuda.synchronize()

    def process(self, frame):
        points = self.rays * frame.float().unsqueeze(-1) * 1e-3
        return points.reshape(-1, 3)


class Viewer:
    def __init__(self, shape):
        self.uploader = FrameUploader(shape)
        self.blocks = [HoleFilling(self.uploader), PointCloud(self.uploader, shape)]

    def on_frame(self, frame):
        device_frame = self.uploader.upload(frame)
        return [block(device_frame) for block in self.blocks]


def main():
    shape = (720, 1280)
    rng = np.random.default_rng(1)
    viewer = Viewer(shape)
    results = None
    for _ in range(100):
        results = viewer.on_frame(rng.integers(0, 8000, shape, dtype=np.int16))
    torch.cuda.synchronize()
    print([r.mean().item() for r in results])


if __name__ == "__main__":
    main()
