"""Two-device pipeline: micro-batches flow from a front half to a back half."""
import torch
from torch import nn


class TwoStage(nn.Module):
    def __init__(self, front, back, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.d0, self.d1 = (torch.device(d) for d in devices)
        self.front = front.to(self.d0)
        self.back = back.to(self.d1)
        self.s0 = torch.cuda.Stream(self.d0)
        self.s1 = torch.cuda.Stream(self.d1)

    def _enter(self):
        self.s0.wait_stream(torch.cuda.current_stream(self.d0))
        self.s1.wait_stream(torch.cuda.current_stream(self.d1))

    def _leave(self):
        torch.cuda.current_stream(self.d0).wait_stream(self.s0)
        torch.cuda.current_stream(self.d1).wait_stream(self.s1)

    @torch.no_grad()
    def forward(self, x, chunks=4):
        if x.device != self.d0:
            raise ValueError(f"expected input on {self.d0}")
        parts = []
        self._enter()
        try:
            for piece in x.chunk(chunks):
                with torch.cuda.stream(self.s0):
                    hidden = self.front(piece)
                    with torch.cuda.stream(self.s1):
                        arrived = hidden.to(self.d1, non_blocking=True)
                        parts.append(self.back(arrived))
        finally:
            self._leave()
        for part in parts:
            part.record_stream(torch.cuda.current_stream(self.d1))
        return torch.cat(parts)


def make(dim=1024, depth=8):
    def half():
        layers = []
        for _ in range(depth // 2):
            layers += [nn.Linear(dim, dim), nn.GELU()]
        return nn.Sequential(*layers)

    return TwoStage(half(), half())


def evaluate(model, loader, head):
    hits = seen = 0
    for x, y in loader:
        feats = model(x.to(model.d0))
        with torch.cuda.device(model.d1):
            pred = head(feats).argmax(-1)
            hits += (pred == y.to(model.d1)).sum().item()
        seen += y.numel()
    return hits / max(seen, 1)
