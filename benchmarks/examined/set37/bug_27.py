"""Collects the routing decisions of every layer and returns them per step."""
from collections import deque

import torch
from torch import nn


class RouteCapture:
    """One device buffer of fixed address, and a ring of pinned host slots."""

    def __init__(self, device, max_tokens, layers, top_k, ring=3):
        self.device = torch.device(device)
        shape = (max_tokens, layers, top_k)
        self.buffer = torch.zeros(shape, dtype=torch.int32, device=device)
        self._stream = torch.cuda.Stream(device=device)
        self._ring = [torch.empty(shape, dtype=torch.int32, pin_memory=True) for _ in range(ring)]
        self._busy = deque()
        self._next = 0
        self.records = []

    def capture(self, layer, ids):
        self.buffer[: ids.shape[0], layer].copy_(ids)

    def _commit_oldest(self):
        event, slot, n, step = self._busy.popleft()
        event.synchronize()
        self.records.append((step, self._ring[slot][:n].numpy().copy()))

    def stage(self, step, n):
        """Copies the rows of this step to a host slot without stopping the host."""
        if len(self._busy) == len(self._ring):
            self._commit_oldest()
        slot = self._next
        self._next = (self._next + 1) % len(self._ring)
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._stream):
            self._ring[slot][:n].copy_(self.buffer[:n], non_blocking=True)
            event = self._stream.record_event()
        self._busy.append((event, slot, n, step))

    def drain(self, wait=False):
        while self._busy and (wait or self._busy[0][0].query()):
            self._commit_oldest()


class MoELayer(nn.Module):
    def __init__(self, index, hidden, experts, top_k, capture):
        super().__init__()
        self.index, self.top_k = index, top_k
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Linear(hidden, hidden)
        self.scale = nn.Embedding(experts, hidden)
        self.capture = capture

    def forward(self, x):
        weights, ids = self.router(x).softmax(-1).topk(self.top_k, dim=-1)
        self.capture.capture(self.index, ids.to(torch.int32))
        gate = (self.scale(ids) * weights.unsqueeze(-1)).sum(dim=1)
        return x + torch.relu(self.up(x)) * gate


class PolicyWorker:
    def __init__(self, max_tokens=4096, layers=24, hidden=1024, experts=64, top_k=4, device="cuda"):
        self.capture = RouteCapture(device, max_tokens, layers, top_k)
        self.model = nn.Sequential(
            *(MoELayer(i, hidden, experts, top_k, self.capture) for i in range(layers))
        ).to(device).eval()
        self.step = 0

    @torch.inference_mode()
    def forward_step(self, hidden_states):
        self.capture.drain()
        out = self.model(hidden_states)
        self.capture.stage(self.step, hidden_states.shape[0])
        self.step += 1
        return out

    def finish(self):
        self.capture.drain(wait=True)
        records, self.capture.records = self.capture.records, []
        return records


def collect(worker, steps, tokens):
    x = torch.randn(tokens, 1024, device="cuda")
    for _ in range(steps):
        x = worker.forward_step(x)
    return worker.finish()


if __name__ == "__main__":
    w = PolicyWorker()
    routes = collect(w, steps=32, tokens=2048)
    print(len(routes), routes[0][1].shape)
