"""Probe heads evaluated on several streams."""
from contextlib import ExitStack

import torch
import torch.nn as nn


class ConcurrentProbes(nn.Module):
    def __init__(self, dim, classes, count):
        super().__init__()
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, classes))
                                   for _ in range(count))
        self.streams = [torch.cuda.Stream() for _ in range(count)]

    def _launch(self, stack, head, stream, features):
        main = torch.cuda.current_stream()
        stream.wait_stream(main)
        stack.callback(main.wait_stream, stream)
        with torch.cuda.stream(stream):
            out = head(features)
        out.record_stream(main)
        return out

    @torch.no_grad()
    def forward(self, features):
        with ExitStack() as stack:
            outs = [self._launch(stack, h, s, features) for h, s in zip(self.heads, self.streams)]
        return torch.stack(outs)


def main():
    backbone = nn.Sequential(nn.Linear(512, 1024), nn.GELU()).cuda()
    probes = ConcurrentProbes(1024, 100, count=4).cuda()
    hits = torch.zeros(4, device="cuda")
    for _ in range(100):
        x = torch.randn(256, 512, device="cuda")
        y = torch.randint(0, 100, (256,), device="cuda")
        with torch.no_grad():
            features = backbone(x)
        logits = probes(features)
        hits += (logits.argmax(-1) == y).float().mean(-1)
    print((hits / 100).tolist())


if __name__ == "__main__":
    main()
