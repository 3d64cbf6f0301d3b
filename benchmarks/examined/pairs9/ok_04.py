"""Decode loop in which step N's tokens are delivered while step N+1 is computed."""
import torch
from torch import nn


class AsyncStepOutput:
    """Sampled ids of one step on their way to the host."""

    def __init__(self, sampled, copy_stream):
        self._sampled = sampled
        self._ready = torch.cuda.Event()
        main = torch.cuda.current_stream()
        with torch.cuda.stream(copy_stream):
            copy_stream.wait_stream(main)
            self._host = sampled.to("cpu", non_blocking=True)
            self._ready.record()

    def get(self):
        self._ready.synchronize()
        ids = self._host.tolist()
        self._sampled = None
        return ids


class Runner:
    def __init__(self, vocab=32000, dim=512):
        self.embed = nn.Embedding(vocab, dim).cuda()
        self.cell = nn.GRUCell(dim, dim).cuda()
        self.head = nn.Linear(dim, vocab, bias=False).cuda()
        self.copy_stream = torch.cuda.Stream()

    @torch.inference_mode()
    def step(self, tokens, state):
        state = self.cell(self.embed(tokens), state)
        sampled = self.head(state).argmax(-1)
        return sampled, state, AsyncStepOutput(sampled, self.copy_stream)


class Scheduler:
    def __init__(self, runner, batch):
        self.runner = runner
        self.history = [[] for _ in range(batch)]
        self.pending = None

    def deliver(self):
        if self.pending is None:
            return
        for row, token in zip(self.history, self.pending.get()):
            row.append(token)
        self.pending = None

    def run(self, steps):
        batch = len(self.history)
        tokens = torch.zeros(batch, dtype=torch.long, device="cuda")
        state = torch.zeros(batch, 512, device="cuda")
        for _ in range(steps):
            tokens, state, out = self.runner.step(tokens, state)
            self.deliver()
            self.pending = out
        self.deliver()
        return self.history


if __name__ == "__main__":
    result = Scheduler(Runner(), batch=16).run(128)
    print([row[:8] for row in result[:2]])
