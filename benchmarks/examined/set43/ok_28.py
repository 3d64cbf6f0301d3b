"""Tracker over decoded luma planes with a ring of device frames (torch)."""
import torch
import torch.nn.functional as F


class RingSlot:
    def __init__(self, h, w, device):
        self.luma = torch.zeros(h, w, device=device)
        self.filled = torch.cuda.Event()
        self.free = torch.cuda.Event()


class FrameRing:
    def __init__(self, depth, h, w, device="cuda"):
        self.feed = torch.cuda.Stream(device)
        self.slots = [RingSlot(h, w, device) for _ in range(depth)]
        self.count = 0
        self.feed.wait_stream(torch.cuda.current_stream())

    def write(self, plane):
        slot = self.slots[self.count % len(self.slots)]
        self.feed.wait_event(slot.free)
        with torch.cuda.stream(self.feed):
            slot.luma.copy_(plane, non_blocking=True)
            slot.luma.mul_(1.0 / 255.0)
            slot.filled.record()
        self.count += 1
        return slot

    def read(self, slot):
        torch.cuda.current_stream().wait_event(slot.filled)
        return slot.luma

    def done(self, slot):
        slot.free.record(torch.cuda.current_stream())


class CorrelationTracker:
    """Follows one patch with phase correlation; position stays on the device."""

    def __init__(self, size=128, rate=0.1):
        self.size = size
        self.rate = rate
        self.template = None
        self.window = torch.hann_window(size, device="cuda")
        self.window = self.window[:, None] * self.window[None, :]

    def _crop(self, img, center):
        s = self.size
        ys = torch.linspace(-1, 1, s, device=img.device) * (s / img.shape[0])
        xs = torch.linspace(-1, 1, s, device=img.device) * (s / img.shape[1])
        gy, gx = torch.meshgrid(ys, xs, indexing="ij")
        grid = torch.stack([gx + center[1], gy + center[0]], dim=-1).unsqueeze(0)
        return F.grid_sample(img[None, None], grid, align_corners=True)[0, 0] * self.window

    def init(self, img, center):
        self.template = torch.fft.rfft2(self._crop(img, center))

    def update(self, img, center):
        spec = torch.fft.rfft2(self._crop(img, center))
        cross = spec * self.template.conj()
        resp = torch.fft.irfft2(cross / cross.abs().clamp_min(1e-6), s=(self.size, self.size))
        k = resp.flatten().argmax()
        half = self.size // 2
        dy = (k // self.size + half) % self.size - half
        dx = (k % self.size + half) % self.size - half
        shift = torch.stack([2.0 * dy / img.shape[0], 2.0 * dx / img.shape[1]])
        self.template.lerp_(spec, self.rate)
        return center + shift


class Session:
    def __init__(self, h, w, depth=3):
        self.ring = FrameRing(depth, h, w)
        self.tracker = CorrelationTracker()
        self.path = []

    def process(self, planes, start):
        center = torch.tensor(start, device="cuda")
        for t, plane in enumerate(planes):
            slot = self.ring.write(plane)
            img = self.ring.read(slot)
            if t == 0:
                self.tracker.init(img, center)
            else:
                center = self.tracker.update(img, center)
            self.ring.done(slot)
            self.path.append(center)
        return torch.stack(self.path).cpu()


def video(n, h, w):
    base = torch.rand(h + 2 * n, w + 2 * n)
    return [(base[t:t + h, t:t + w] * 255).to(torch.uint8).pin_memory() for t in range(n)]


def main():
    h, w = 720, 1280
    path = Session(h, w).process(video(40, h, w), (0.0, 0.0))
    print(path[0].tolist(), path[-1].tolist())


if __name__ == "__main__":
    main()
