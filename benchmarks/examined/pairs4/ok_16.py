"""Radiance field viewer: render into two images, present from a second stream."""
import math

import torch
from torch import nn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(36, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))

    def forward(self, d):
        freqs = 2.0 ** torch.arange(6, device=d.device)
        enc = (d[..., None] * freqs).flatten(1)
        return self.net(torch.cat([enc.sin(), enc.cos()], -1)).sigmoid()


class SwapChain:
    def __init__(self, h, w, images=2):
        self.images = [torch.zeros(h * w, 3, device="cuda") for _ in range(images)]
        self.drawn = [torch.cuda.Event() for _ in range(images)]
        self.shown = [torch.cuda.Event() for _ in range(images)]


class Viewer:
    def __init__(self, h=270, w=480):
        self.h, self.w = h, w
        self.field = Field().cuda().eval()
        self.chain = SwapChain(h, w)
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        self.rays = torch.stack([xs, ys, torch.ones_like(xs)], -1).reshape(-1, 3).cuda()
        self.histogram = torch.zeros(64, device="cuda")
        torch.cuda.synchronize()
        self.render_stream, self.present_stream = torch.cuda.Stream(), torch.cuda.Stream()

    @torch.inference_mode()
    def render(self, k):
        i = k % len(self.chain.images)
        with torch.cuda.stream(self.render_stream):
            self.render_stream.wait_event(self.chain.shown[i])
            scale = math.cos(0.01 * k) + 2.0
            self.chain.images[i].copy_(self.field(self.rays * scale))
            self.chain.drawn[i].record()
        return i

    @torch.inference_mode()
    def present(self, i):
        with torch.cuda.stream(self.present_stream):
            self.present_stream.wait_event(self.chain.drawn[i])
            self.histogram += torch.histc(self.chain.images[i], 64, 0, 1)
            self.chain.shown[i].record()


def main():
    viewer = Viewer()
    for k in range(600):
        viewer.present(viewer.render(k))
    torch.cuda.synchronize()
    print(viewer.histogram.tolist())


if __name__ == "__main__":
    main()
