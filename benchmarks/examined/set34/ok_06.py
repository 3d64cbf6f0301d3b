"""Three-stage frame pipeline; ring slots are recycled along a chain of events."""
import numpy as np
import torch
import torch.nn.functional as F


class Slot:
    def __init__(self, shape):
        h, w = shape
        self.host = torch.empty(h, w, 3, dtype=torch.uint8, pin_memory=True)
        self.raw = torch.empty(h, w, 3, dtype=torch.uint8, device="cuda")
        self.small = torch.empty(1, 3, h // 4, w // 4, device="cuda")
        self.uploaded = torch.cuda.Event()
        self.filtered = torch.cuda.Event()
        self.summed = torch.cuda.Event()


class FramePipeline:
    def __init__(self, shape, depth=3):
        self.upload = torch.cuda.Stream()
        self.filter = torch.cuda.Stream()
        self.reduce = torch.cuda.Stream()
        self.slots = [Slot(shape) for _ in range(depth)]
        self.histogram = torch.zeros(shape[0] // 4, shape[1] // 4, device="cuda")
        self.kernel = torch.ones(3, 1, 4, 4, device="cuda") / 16
        self.count = 0
        torch.cuda.synchronize()

    def push(self, frame):
        slot = self.slots[self.count % len(self.slots)]
        self.count += 1
        slot.uploaded.synchronize()
        slot.host.copy_(torch.from_numpy(frame))

        self.upload.wait_event(slot.summed)
        with torch.cuda.stream(self.upload):
            slot.raw.copy_(slot.host, non_blocking=True)
            slot.uploaded.record()

        self.filter.wait_event(slot.uploaded)
        with torch.cuda.stream(self.filter):
            x = slot.raw.permute(2, 0, 1).unsqueeze(0).float()
            slot.small.copy_(F.conv2d(x, self.kernel, stride=4, groups=3))
            slot.filtered.record()

        self.reduce.wait_event(slot.filtered)
        with torch.cuda.stream(self.reduce):
            self.histogram.add_(slot.small.mean(dim=(0, 1)), alpha=1.0 / 255.0)
            slot.summed.record()

    def mean_image(self):
        caller = torch.cuda.current_stream()
        caller.wait_stream(self.reduce)
        image = self.histogram / max(self.count, 1)
        self.reduce.wait_stream(caller)
        return image


def main():
    shape = (1080, 1920)
    rng = np.random.default_rng(0)
    pipe = FramePipeline(shape)
    frames = [rng.integers(0, 255, (*shape, 3), dtype=np.uint8) for _ in range(4)]
    for n in range(120):
        pipe.push(frames[n % len(frames)])
    print(pipe.mean_image().mean().item())


if __name__ == "__main__":
    main()
