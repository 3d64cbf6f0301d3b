"""Deferred token readback for a decode loop."""
from collections import deque

import torch
from torch import nn


class AsyncTokens:
    """Handle to a step's sampled tokens; the host copy is in flight."""

    def __init__(self, sampled: torch.Tensor, copy_stream: torch.cuda.Stream):
        self._sampled = sampled
        self._host = torch.empty(sampled.shape, dtype=sampled.dtype, pin_memory=True)
        self._done = torch.cuda.Event()
        copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy_stream):
            self._host.copy_(sampled, non_blocking=True)
            self._done.record()

    def get(self) -> list:
        self._done.synchronize()
        self._sampled = None
        return self._host.tolist()


class Runner:
    def __init__(self, model: nn.Module, depth: int = 2):
        self.model = model.cuda().eval()
        self.copy_stream = torch.cuda.Stream()
        self.inflight = deque()
        self.depth = depth

    @torch.inference_mode()
    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        nxt = self.model(tokens).argmax(-1)
        self.inflight.append(AsyncTokens(nxt, self.copy_stream))
        return nxt

    def drain(self, keep: int = 0):
        while len(self.inflight) > keep:
            yield self.inflight.popleft().get()


def generate(model, prompt: torch.Tensor, steps: int):
    runner = Runner(model)
    tokens = prompt.cuda()
    out = []
    for _ in range(steps):
        tokens = runner.step(tokens)
        out.extend(runner.drain(keep=runner.depth))
    out.extend(runner.drain())
    return out


if __name__ == "__main__":
    net = nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 1000))
    print(len(generate(net, torch.zeros(8, dtype=torch.long), 16)))
