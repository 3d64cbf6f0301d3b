"""Decode loop that schedules the next step before the sampled tokens reach the host."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch


class AsyncTokens:
    def __init__(self, tokens: torch.Tensor, copy_stream: torch.cuda.Stream):
        self._tokens = tokens
        self._host = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
        producer = torch.cuda.current_stream(tokens.device)
        copy_stream.wait_stream(producer)
        with torch.cuda.stream(copy_stream):
            self._host.copy_(tokens, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record(copy_stream)

    def get(self) -> list[int]:
        self._event.synchronize()
        self._tokens = None
        return self._host.tolist()

    def __del__(self) -> None:
        event = getattr(self, "_event", None)
        if event is not None and self._tokens is not None:
            event.synchronize()


@dataclass
class Request:
    uid: int
    budget: int
    output: list[int] = field(default_factory=list)
    done: bool = False


class Decoder:
    def __init__(self, model: torch.nn.Module, eos: int, device: torch.device):
        self.model = model
        self.eos = eos
        self.device = device
        self._copy = torch.cuda.Stream(device=device)

    def _accept(self, requests: list[Request], tokens: list[int]) -> None:
        for request, token in zip(requests, tokens):
            if request.done:
                continue
            request.output.append(token)
            request.done = token == self.eos or len(request.output) >= request.budget

    @torch.inference_mode()
    def generate(self, requests: list[Request], first: list[int]) -> None:
        tokens = torch.tensor(first, device=self.device)
        state = torch.zeros(len(requests), self.model.hidden_size, device=self.device)
        inflight: AsyncTokens | None = None
        while not all(request.done for request in requests):
            logits, state = self.model(tokens, state)
            tokens = logits.argmax(dim=-1)
            upcoming = AsyncTokens(tokens, self._copy)
            if inflight is not None:
                self._accept(requests, inflight.get())
            inflight = upcoming
        if inflight is not None:
            inflight.get()


class TinyRNN(torch.nn.Module):
    def __init__(self, vocab: int, hidden_size: int):
        super().__init__()
        self.hidden_size = hidden_size
        self.embed = torch.nn.Embedding(vocab, hidden_size)
        self.cell = torch.nn.GRUCell(hidden_size, hidden_size)
        self.head = torch.nn.Linear(hidden_size, vocab)

    def forward(self, tokens: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = self.cell(self.embed(tokens), state)
        return self.head(state), state


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    decoder = Decoder(TinyRNN(100, 64).to(device).eval(), eos=0, device=device)
    for batch in range(3):
        requests = [Request(uid, budget=8 + uid) for uid in range(4)]
        decoder.generate(requests, [batch + 1] * 4)
        print([len(request.output) for request in requests])


if __name__ == "__main__":
    main()
