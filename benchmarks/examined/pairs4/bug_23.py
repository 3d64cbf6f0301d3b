"""Sequence scoring from a large token file with early exit."""
import numpy as np
import torch
from torch import nn


class StagingCache:
    def __init__(self):
        self.items = []

    def borrow(self, shape, n):
        while len(self.items) < n:
            self.items.append(torch.empty(shape, dtype=torch.long, pin_memory=True))
        out, self.items = self.items[:n], self.items[n:]
        return out

    def give_back(self, buffers):
        self.items.extend(buffers)


class TokenStream:
    def __init__(self, tokens, batch, length, cache):
        self.tokens = tokens.reshape(-1, batch, length)
        self.cache = cache
        self.stream = torch.cuda.Stream()

    def _upload(self, index, host):
        host.copy_(torch.from_numpy(self.tokens[index]))
        with torch.cuda.stream(self.stream):
            return host.to("cuda", non_blocking=True), self.stream.record_event()

    def __iter__(self):
        buffers = self.cache.borrow(self.tokens.shape[1:], 2)
        try:
            ahead = self._upload(0, buffers[0])
            for i in range(len(self.tokens)):
                ids, moved = ahead
                moved.synchronize()
                if i + 1 < len(self.tokens):
                    ahead = self._upload(i + 1, buffers[(i + 1) % 2])
                ids.record_stream(torch.cuda.current_stream())
                yield ids
        finally:
            self.cache.give_back(buffers)


def score(model, stream, budget):
    total = torch.zeros((), device="cuda")
    for used, ids in enumerate(stream):
        if used == budget:
            break
        total += model(ids).logsumexp(-1).mean()
    return total


def main():
    model = nn.Sequential(nn.Embedding(32000, 256), nn.Linear(256, 512)).cuda().requires_grad_(False)
    cache = StagingCache()
    totals = []
    for seed in range(20):
        tokens = np.random.default_rng(seed).integers(0, 32000, 64 * 256 * 512)
        totals.append(score(model, TokenStream(tokens, 256, 512, cache), budget=3))
    print(torch.stack(totals).tolist())


if __name__ == "__main__":
    main()
