"""Batch several decoded frames and score clips (torch, NV12 surfaces)."""
import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Clip:
    name: str
    frames: list  # pinned uint8 tensors, NV12 layout (3h/2, w)


class SurfacePool:
    def __init__(self, count, h, w, device):
        self.items = [
            {"nv12": torch.empty(h * 3 // 2, w, dtype=torch.uint8, device=device),
             "rgb": torch.empty(3, h, w, device=device)}
            for _ in range(count)
        ]
        self.next = 0

    def acquire(self):
        s = self.items[self.next]
        self.next = (self.next + 1) % len(self.items)
        return s


class Decoder:
    """Hands out planar RGB frames; conversion runs on the decoder's stream."""

    def __init__(self, h, w, surfaces=4, device="cuda"):
        self.h, self.w = h, w
        self.stream = torch.cuda.Stream(device)
        self.pool = SurfacePool(surfaces, h, w, device)

    def _convert(self, nv12, rgb):
        y = nv12[: self.h].float() - 16.0
        uv = nv12[self.h:].view(self.h // 2, self.w // 2, 2).float() - 128.0
        uv = uv.permute(2, 0, 1).unsqueeze(0)
        uv = F.interpolate(uv, scale_factor=2, mode="nearest")[0]
        rgb[0] = 1.164 * y + 1.793 * uv[1]
        rgb[1] = 1.164 * y - 0.213 * uv[0] - 0.533 * uv[1]
        rgb[2] = 1.164 * y + 2.112 * uv[0]
        rgb.clamp_(0.0, 255.0)

    def decode(self, packet):
        surface = self.pool.acquire()
        with torch.cuda.stream(self.stream):
            surface["nv12"].copy_(packet, non_blocking=True)
            self._convert(surface["nv12"], surface["rgb"])
            done = self.stream.record_event()
        return surface["rgb"], done


class ClipScorer(nn.Module):
    def __init__(self, classes=12):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv3d(3, 24, (3, 7, 7), (1, 4, 4), (1, 3, 3)), nn.ReLU(),
            nn.Conv3d(24, 48, 3, (1, 2, 2), 1), nn.ReLU(),
        )
        self.head = nn.Linear(48, classes)

    def forward(self, x):
        return self.head(self.stem(x).mean(dim=(2, 3, 4)))


class Pipeline:
    def __init__(self, h, w, window=4):
        self.decoder = Decoder(h, w, surfaces=window)
        self.model = ClipScorer().cuda().eval()
        self.window = window
        self.mean = torch.tensor([123.7, 116.3, 103.5], device="cuda").view(3, 1, 1)

    def _assemble(self, frames):
        cur = torch.cuda.current_stream()
        planes = []
        for rgb, done in frames:
            cur.wait_event(done)
            planes.append((rgb - self.mean) / 58.0)
        return torch.stack(planes, dim=1).unsqueeze(0)

    @torch.inference_mode()
    def run(self, clip):
        total = None
        for i in range(0, len(clip.frames) - self.window + 1, self.window):
            got = [self.decoder.decode(p) for p in clip.frames[i:i + self.window]]
            logits = self.model(self._assemble(got))
            total = logits if total is None else total + logits
        return total


def fake_clip(name, h, w, n):
    frames = [torch.randint(16, 235, (h * 3 // 2, w), dtype=torch.uint8).pin_memory() for _ in range(n)]
    return Clip(name, frames)


def main():
    h, w = 720, 1280
    clips = [fake_clip(f"clip{i}", h, w, 32) for i in range(3)]
    pipe = Pipeline(h, w)
    scores = {c.name: pipe.run(c) for c in clips}
    torch.cuda.synchronize()
    for name, s in scores.items():
        print(name, s.argmax().item())


if __name__ == "__main__":
    main()
