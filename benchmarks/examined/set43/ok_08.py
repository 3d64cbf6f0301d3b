from dataclasses import dataclass, field
from typing import List

import numpy as np
import torch
import torch.nn as nn


@dataclass
class Request:
    index: int
    allowed: int
    tokens: List[int] = field(default_factory=list)


class MaskBuilder:
    """Keeps one numpy array and rewrites it for every batch."""

    def __init__(self, batch: int, vocab: int):
        self.words = (vocab + 31) // 32
        self.array = np.zeros((batch, self.words), dtype=np.int32)
        self.order = np.zeros(batch, dtype=np.int64)

    def build(self, requests: List[Request]):
        n = len(requests)
        self.array[:n] = 0
        for row, req in enumerate(requests):
            start = (req.allowed // 32) % (self.words - 8)
            self.array[row, start:start + 8] = -1
            self.order[row] = req.index
        return self.array[:n], self.order[:n]


class Sampler(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.register_buffer("shifts", torch.arange(32, dtype=torch.int32, device=device))

    def forward(self, logits, mask_np, order_np):
        mask = torch.from_numpy(mask_np).to(self.device, non_blocking=True)
        order = torch.from_numpy(order_np).to(self.device, non_blocking=True)
        bits = (mask.unsqueeze(-1) >> self.shifts).bitwise_and_(1)
        keep = bits.flatten(1)[:, : logits.shape[1]].bool()
        rows = logits.index_select(0, order).masked_fill(~keep, float("-inf"))
        return rows.argmax(dim=-1)


class Engine:
    def __init__(self, vocab: int, width: int, batch: int, device):
        self.embed = nn.Embedding(vocab, width, device=device)
        self.sampler = Sampler(device)
        self.builder = MaskBuilder(batch, vocab)
        self.ids = torch.zeros(batch, dtype=torch.long, device=device)
        self.trace: List[torch.Tensor] = []

    def step(self, requests: List[Request]):
        hidden = torch.tanh(self.embed(self.ids))
        logits = hidden @ self.embed.weight.t()
        mask, order = self.builder.build(requests)
        picked = self.sampler(logits, mask, order)
        self.ids.copy_(picked)
        self.trace.append(picked)
        for req in requests:
            req.allowed += 32

    def finish(self, requests: List[Request]):
        table = torch.stack(self.trace, dim=1).cpu().tolist()
        for req, row in zip(requests, table):
            req.tokens.extend(row)


@torch.inference_mode()
def main():
    device = torch.device("cuda")
    batch = 64
    engine = Engine(vocab=65536, width=512, batch=batch, device=device)
    requests = [Request(i, i * 64) for i in range(batch)]
    for _ in range(40):
        engine.step(requests)
    engine.finish(requests)
    print(requests[3].tokens[:8])


if __name__ == "__main__":
    main()
