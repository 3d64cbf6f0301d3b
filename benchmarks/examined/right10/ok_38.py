"""Diffusion sampler: previews leave the device on a side stream while sampling continues."""
import contextlib

import torch
from torch import nn


class Preview:
    """Copies scaled-down latents to the host; `flush` hands them out in order."""

    def __init__(self, every: int):
        self.every = every
        self.stream = torch.cuda.Stream()
        self.items: list[tuple[int, torch.Tensor, torch.Tensor]] = []

    def offer(self, step: int, latent: torch.Tensor):
        if step % self.every:
            return
        frozen = latent.clone()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            small = nn.functional.avg_pool2d(frozen, 4)
            host = torch.empty(small.shape, dtype=small.dtype, pin_memory=True)
            host.copy_(small, non_blocking=True)
        self.items.append((step, frozen, host))

    def flush(self):
        self.stream.synchronize()
        out = [(s, h.numpy().copy()) for s, _, h in self.items]
        self.items.clear()
        return out


@contextlib.contextmanager
def previews(every: int, sink):
    p = Preview(every)
    try:
        yield p
    finally:
        for step, image in p.flush():
            sink(step, image)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 4, 3, padding=1))

    def forward(self, x, sigma):
        return self.net(x / (1 + sigma))


@torch.inference_mode()
def sample(model, steps=40):
    sigmas = [10.0 * (1 - i / steps) for i in range(steps + 1)]
    x = torch.randn(1, 4, 64, 64, device="cuda") * sigmas[0]
    seen = {}
    with previews(8, lambda s, im: seen.setdefault(s, float(im.std()))) as p:
        for i in range(steps):
            d = (x - model(x, sigmas[i])) / max(sigmas[i], 1e-3)
            x.add_(d, alpha=sigmas[i + 1] - sigmas[i])
            p.offer(i, x)
    return x, seen


if __name__ == "__main__":
    x, seen = sample(Denoiser().cuda().eval())
    print(x.std().item(), seen)
