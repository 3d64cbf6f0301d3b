"""Evaluation pass that keeps every layer's hidden state on the host for probing."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class HiddenRecord:
    layer: int
    data: torch.Tensor
    done: torch.cuda.Event


class HiddenStateDump:
    def __init__(self, device="cuda"):
        self.stream = torch.cuda.Stream(device)
        self.records = []

    def push(self, layer, hidden):
        host = torch.empty(hidden.shape, dtype=hidden.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(hidden, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        self.records.append(HiddenRecord(layer, host, done))

    def drain(self):
        for rec in self.records:
            rec.done.synchronize()
            yield rec.layer, rec.data
        self.records = []


class Encoder(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 8, batch_first=True) for _ in range(depth)
        )

    def forward(self, hidden, dump):
        for i, layer in enumerate(self.layers):
            hidden = layer(hidden)
            dump.push(i, hidden)
        return hidden


@torch.no_grad()
def main():
    model = Encoder(512, 12).cuda().eval()
    dump = HiddenStateDump()
    norms = {}
    for _ in range(10):
        tokens = torch.randn(16, 256, 512, device="cuda")
        model(tokens, dump)
        for layer, data in dump.drain():
            norms.setdefault(layer, []).append(data.norm().item())
    for layer, values in norms.items():
        print(layer, sum(values) / len(values))


if __name__ == "__main__":
    main()
