"""Optimizer with moments in page-locked memory, moved in chunks around the update."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Chunk:
    params: list
    exp_avg: list = field(default_factory=list)
    exp_avg_sq: list = field(default_factory=list)
    saved: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    on_device: tuple | None = None
    loaded: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class StreamedAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, chunk_size=4):
        params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps = lr, betas, eps
        self.count = 0
        self.chunks = [Chunk(params[i:i + chunk_size]) for i in range(0, len(params), chunk_size)]
        for chunk in self.chunks:
            for p in chunk.params:
                chunk.exp_avg.append(torch.zeros(p.shape, dtype=torch.float32, pin_memory=True))
                chunk.exp_avg_sq.append(torch.zeros(p.shape, dtype=torch.float32, pin_memory=True))
        self.load_stream = torch.cuda.Stream()
        self.save_stream = torch.cuda.Stream()
        self.retiring = []

    def _load(self, chunk):
        if chunk.on_device is not None:
            return
        self.load_stream.wait_event(chunk.saved)
        device = chunk.params[0].device
        m = [torch.empty(t.shape, device=device) for t in chunk.exp_avg]
        v = [torch.empty(t.shape, device=device) for t in chunk.exp_avg_sq]
        self.load_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.load_stream):
            for dst, src in zip(m + v, chunk.exp_avg + chunk.exp_avg_sq):
                dst.copy_(src, non_blocking=True)
            chunk.loaded.record(self.load_stream)
        chunk.on_device = (m, v)

    def _save(self, chunk):
        m, v = chunk.on_device
        self.save_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.save_stream):
            for dst, src in zip(chunk.exp_avg + chunk.exp_avg_sq, m + v):
                dst.copy_(src, non_blocking=True)
            chunk.saved.record(self.save_stream)
        self.retiring.append((chunk.saved, m, v))
        chunk.on_device = None

    def _retire(self, keep):
        while len(self.retiring) > keep:
            saved, _, _ = self.retiring[0]
            torch.cuda.current_stream().wait_event(saved)
            self.retiring.pop(0)

    def _update(self, chunk):
        b1, b2 = self.betas
        c1, c2 = 1 - b1 ** self.count, 1 - b2 ** self.count
        m, v = chunk.on_device
        for p, ea, es in zip(chunk.params, m, v):
            if p.grad is None:
                continue
            ea.lerp_(p.grad, 1 - b1)
            es.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            p.addcdiv_(ea, (es / c2).sqrt_().add_(self.eps), value=-self.lr / c1)

    @torch.no_grad()
    def step(self):
        self.count += 1
        self._load(self.chunks[0])
        for i, chunk in enumerate(self.chunks):
            if i + 1 < len(self.chunks):
                self._load(self.chunks[i + 1])
            torch.cuda.current_stream().wait_event(chunk.loaded)
            self._update(chunk)
            self._save(chunk)
            self._retire(keep=1)
        self._retire(keep=0)

    def state_dict(self):
        self.save_stream.synchronize()
        return {
            "count": self.count,
            "exp_avg": [t.clone() for c in self.chunks for t in c.exp_avg],
            "exp_avg_sq": [t.clone() for c in self.chunks for t in c.exp_avg_sq],
        }


def main():
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(12)]).cuda()
    optimizer = StreamedAdam(model.parameters())
    for _ in range(20):
        x = torch.randn(256, 2048, device="cuda")
        model(x).square().mean().backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
    print(optimizer.state_dict()["count"])


if __name__ == "__main__":
    main()
