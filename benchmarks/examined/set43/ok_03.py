from collections import deque
from typing import Deque, Iterator, List, NamedTuple

import torch
import torch.nn as nn


class InFlight(NamedTuple):
    device_ids: torch.Tensor
    host_ids: torch.Tensor
    event: torch.cuda.Event


class AsyncTokens:
    def __init__(self, depth: int = 2):
        self.depth = depth
        self.stream = torch.cuda.Stream()
        self.queue: Deque[InFlight] = deque()

    def push(self, ids: torch.Tensor) -> None:
        host = torch.empty(ids.shape, dtype=ids.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(ids, non_blocking=True)
            event = self.stream.record_event()
        self.queue.append(InFlight(ids, host, event))

    def ready(self) -> Iterator[List[int]]:
        while len(self.queue) >= self.depth:
            yield self._pop()

    def drain(self) -> Iterator[List[int]]:
        while self.queue:
            yield self._pop()

    def _pop(self) -> List[int]:
        entry = self.queue[0]
        entry.event.synchronize()
        tokens = entry.host_ids.tolist()
        self.queue.popleft()
        return tokens


class Decoder(nn.Module):
    def __init__(self, vocab: int = 16000, width: int = 768, layers: int = 4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = x + torch.nn.functional.gelu(layer(x))
        return self.norm(x) @ self.embed.weight.t()


class Generator:
    def __init__(self, model: Decoder, batch: int):
        self.model = model
        self.ids = torch.ones(batch, dtype=torch.long, device="cuda")
        self.tokens = AsyncTokens()
        self.texts: List[List[int]] = [[] for _ in range(batch)]

    def _collect(self, columns: Iterator[List[int]]) -> None:
        for column in columns:
            for text, tok in zip(self.texts, column):
                text.append(tok)

    @torch.no_grad()
    def run(self, steps: int) -> List[List[int]]:
        for _ in range(steps):
            logits = self.model(self.ids)
            nxt = torch.argmax(logits, dim=-1)
            self.tokens.push(nxt)
            self.ids = nxt
            self._collect(self.tokens.ready())
        self._collect(self.tokens.drain())
        return self.texts


def main():
    torch.manual_seed(1)
    gen = Generator(Decoder().cuda().eval(), batch=32)
    out = gen.run(100)
    print([len(t) for t in out[:4]], out[0][:10])


if __name__ == "__main__":
    main()
