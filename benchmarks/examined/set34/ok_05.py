"""Decode loop with a captured graph; sampled tokens leave through a side stream."""
import torch
from torch import nn


class TinyDecoder(nn.Module):
    def __init__(self, vocab=32000, dim=1024, depth=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.embed(tokens)
        for block in self.blocks:
            h = h + torch.tanh(block(h))
        return self.head(h).argmax(-1)


class GraphRunner:
    def __init__(self, model, batch, device="cuda"):
        self.tokens = torch.zeros(batch, dtype=torch.long, device=device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(self.tokens)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.sampled = model(self.tokens)

    def step(self):
        self.graph.replay()
        self.tokens.copy_(self.sampled)
        return self.sampled


class TokenReader:
    """Two page-locked rows; a row is handed out once its copy is complete."""

    def __init__(self, batch, depth=2):
        self.stream = torch.cuda.Stream()
        self.rows = [torch.empty(batch, dtype=torch.long, pin_memory=True) for _ in range(depth)]
        self.done = [torch.cuda.Event() for _ in range(depth)]
        self.order = []
        self.next = 0

    def submit(self, tokens):
        if len(self.order) == len(self.rows):
            raise RuntimeError("collect before submitting more")
        slot = self.next
        self.next = (slot + 1) % len(self.rows)
        compute = torch.cuda.current_stream()
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            self.rows[slot].copy_(tokens, non_blocking=True)
            self.done[slot].record(self.stream)
        compute.wait_event(self.done[slot])
        self.order.append(slot)

    def collect(self):
        slot = self.order.pop(0)
        self.done[slot].synchronize()
        return self.rows[slot].tolist()


@torch.inference_mode()
def generate(steps=64, batch=32):
    model = TinyDecoder().cuda().eval()
    runner = GraphRunner(model, batch)
    reader = TokenReader(batch)
    runner.tokens.copy_(torch.randint(0, 32000, (batch,), device="cuda"))
    text = [[] for _ in range(batch)]

    def drain():
        for row, token in zip(text, reader.collect()):
            row.append(token)

    for step in range(steps):
        reader.submit(runner.step())
        if step > 0:
            drain()
    drain()
    return text


if __name__ == "__main__":
    print(generate()[0][:8])
