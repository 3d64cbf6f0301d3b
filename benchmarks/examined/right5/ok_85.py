from contextlib import nullcontext

import torch
from torch import nn


class OptionalOverlap:
    """Side-stream helper that degrades to in-line execution."""

    def __init__(self, enabled: bool):
        self.stream = torch.cuda.Stream() if enabled else None

    def fork(self):
        if self.stream is None:
            return nullcontext()
        self.stream.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.stream)

    def join(self, *tensors: torch.Tensor):
        if self.stream is None:
            return
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        for t in tensors:
            t.record_stream(current)


class ControlNetStep(nn.Module):
    def __init__(self, dim: int, overlap: bool):
        super().__init__()
        self.control = nn.ModuleList(nn.Conv2d(dim, dim, 3, padding=1) for _ in range(3))
        self.encoder = nn.ModuleList(nn.Conv2d(dim, dim, 3, padding=1) for _ in range(3))
        self.decoder = nn.Conv2d(dim, dim, 3, padding=1)
        self.overlap = OptionalOverlap(overlap)

    def forward(self, x, hint):
        residuals = []
        with self.overlap.fork():
            c = x + hint
            for conv in self.control:
                c = torch.relu(conv(c))
                residuals.append(c)
        h, skips = x, []
        for conv in self.encoder:
            h = torch.relu(conv(h))
            skips.append(h)
        self.overlap.join(*residuals)
        for r, s in zip(residuals, skips):
            h = h + r * s
        return self.decoder(h)


@torch.inference_mode()
def main(overlap: bool = True):
    step = ControlNetStep(32, overlap).cuda()
    x = torch.randn(1, 32, 128, 128, device="cuda")
    hint = torch.randn(1, 32, 128, 128, device="cuda")
    for _ in range(20):
        x = x - 0.05 * step(x, hint)
    print(x.std().item())


if __name__ == "__main__":
    main()
