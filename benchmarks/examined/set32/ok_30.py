"""Sliding-window cache spill: hot rows stay, cold rows go to page-locked memory."""
from collections import deque

import torch


class Spill:
    def __init__(self, rows, dim, device="cuda", depth=4):
        self.device = torch.device(device)
        self.compute = torch.cuda.Stream(self.device)
        self.out_stream = torch.cuda.Stream(self.device)
        self.store = torch.empty(rows, dim, dtype=torch.float16, pin_memory=True)
        self.depth = depth
        self.ring = deque()
        self.cursor = 0
        self.landed = None

    def retire(self, keep):
        while len(self.ring) > keep:
            event, rows = self.ring.popleft()
            self.compute.wait_event(event)
            del rows

    def push(self, rows):
        """``rows``: tensor made on ``self.compute``; the spill takes it over."""
        n = rows.shape[0]
        made = torch.cuda.Event()
        made.record(self.compute)
        self.out_stream.wait_event(made)
        event = torch.cuda.Event()
        with torch.cuda.stream(self.out_stream):
            self.store[self.cursor : self.cursor + n].copy_(rows, non_blocking=True)
            event.record()
        self.cursor += n
        self.landed = event
        self.ring.append((event, rows))
        del rows
        self.retire(self.depth)

    def close(self):
        self.retire(0)
        if self.landed is not None:
            self.landed.synchronize()
        return self.store[: self.cursor]


class Encoder:
    def __init__(self, dim, device="cuda"):
        self.device = torch.device(device)
        self.proj = torch.nn.Linear(dim, dim).half().to(self.device)
        self.gate = torch.nn.Linear(dim, dim).half().to(self.device)

    @torch.inference_mode()
    def encode(self, x):
        return self.proj(x) * torch.sigmoid(self.gate(x))


@torch.inference_mode()
def build_memory(encoder, chunks, rows, dim, device="cuda"):
    """``chunks``: CPU tensors of shape (n, dim)."""
    spill = Spill(rows, dim, device)
    spill.compute.wait_stream(torch.cuda.current_stream(spill.device))
    with torch.cuda.stream(spill.compute):
        for chunk in chunks:
            spill.push(encoder.encode(chunk.to(spill.device).half()))
    return spill.close()


def main(chunks, dim=1024):
    total = sum(c.shape[0] for c in chunks)
    memory = build_memory(Encoder(dim), chunks, total, dim)
    return memory.float().norm(dim=-1)
