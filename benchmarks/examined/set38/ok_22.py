"""Gradient statistics gathered beside the training step."""
from collections import deque

import torch
import torch.nn as nn


class SideHistogram:
    """Adds histograms of temporary tensors on its own stream."""

    def __init__(self, bins, depth, device):
        self.bins = bins
        self.depth = depth
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.counts = torch.zeros(bins, device=device)
        self._held = deque()

    def _retire(self, limit):
        while len(self._held) > limit:
            _, done = self._held.popleft()
            torch.cuda.current_stream(self.device).wait_event(done)

    def add(self, tensor):
        flat = tensor.detach().abs().add(1e-12).log2().flatten()
        ready = torch.cuda.current_stream(self.device).record_event()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            idx = flat.add(32.0).clamp_(0, self.bins - 1).long()
            self.counts.scatter_add_(0, idx, torch.ones_like(idx, dtype=self.counts.dtype))
            done = self.stream.record_event()
        self._held.append((flat, done))
        self._retire(self.depth)

    def finish(self):
        self._retire(0)
        return self.counts.cpu()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + torch.relu(self.fc(self.norm(x)))


def build(dim, depth):
    return nn.Sequential(*[Block(dim) for _ in range(depth)], nn.Linear(dim, 10))


def attach(model, hist):
    handles = []
    for p in model.parameters():
        if p.dim() == 2:
            handles.append(p.register_post_accumulate_grad_hook(lambda q: hist.add(q.grad)))
    return handles


def main():
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    model = build(512, 8).to(device)
    hist = SideHistogram(bins=64, depth=4, device=device)
    torch.cuda.synchronize()
    handles = attach(model, hist)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(100):
        x = torch.randn(256, 512, device=device)
        y = torch.randint(0, 10, (256,), device=device)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
    for h in handles:
        h.remove()
    print(hist.finish().int().tolist())


if __name__ == "__main__":
    main()
