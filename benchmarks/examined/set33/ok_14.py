"""Replay of a captured sampler; its static output is downloaded on the stream of the replays."""
from collections import deque

import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self, dim=512, vocab=32000):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, hidden):
        return torch.topk(self.head(self.norm(hidden)), k=8, dim=-1)


class GraphSampler:
    """Top-k sampling by graph replay, with a window of results in flight."""

    def __init__(self, batch=64, dim=512, window=3):
        self.stream = torch.cuda.Stream()
        self.model = Sampler(dim).cuda().eval()
        self.batch = batch
        self.window = window
        self.graph = torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.no_grad():
            self.hidden = torch.zeros((batch, dim), device="cuda")
            for _ in range(2):
                self.model(self.hidden)
            self.stream.synchronize()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.scores, self.ids = self.model(self.hidden)
        self.pending = deque()
        self.pool = []

    def _host_buffers(self):
        if self.pool:
            return self.pool.pop()
        return (
            torch.empty(self.scores.shape, dtype=self.scores.dtype, pin_memory=True),
            torch.empty(self.ids.shape, dtype=self.ids.dtype, pin_memory=True),
            torch.cuda.Event(),
        )

    def submit(self, hidden):
        producer = torch.cuda.current_stream()
        self.stream.wait_stream(producer)
        host_scores, host_ids, done = self._host_buffers()
        with torch.cuda.stream(self.stream):
            self.hidden.copy_(hidden)
            copied = self.stream.record_event()
            self.graph.replay()
            host_scores.copy_(self.scores, non_blocking=True)
            host_ids.copy_(self.ids, non_blocking=True)
            done.record()
        producer.wait_event(copied)
        self.pending.append((host_scores, host_ids, done))
        return len(self.pending) > self.window

    def fetch(self):
        host_scores, host_ids, done = self.pending.popleft()
        done.synchronize()
        pairs = list(zip(host_ids.tolist(), host_scores.tolist()))
        self.pool.append((host_scores, host_ids, done))
        return pairs


def stream_results(steps=100, batch=64, dim=512):
    sampler = GraphSampler(batch, dim)
    results = []
    hidden = torch.randn(batch, dim, device="cuda")
    for _ in range(steps):
        hidden = torch.tanh(hidden + 0.1 * torch.randn_like(hidden))
        if sampler.submit(hidden):
            results.append(sampler.fetch())
    while sampler.pending:
        results.append(sampler.fetch())
    return results
