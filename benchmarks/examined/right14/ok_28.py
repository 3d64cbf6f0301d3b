"""Greedy decoding that inspects stop flags one step behind the device."""
from __future__ import annotations

import torch
from torch import nn


class StepModel(nn.Module):
    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, vocab)

    def forward(self, token: torch.Tensor, state: torch.Tensor):
        state = self.cell(self.embed(token), state)
        return self.out(state).argmax(-1), state


class LaggedDecoder:
    def __init__(self, model: StepModel, width: int, stop: int, device: torch.device) -> None:
        self.model = model.eval()
        self.width = width
        self.stop = stop
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)
        self.flags = torch.zeros(2, dtype=torch.bool, pin_memory=True)
        self.events = [torch.cuda.Event(), torch.cuda.Event()]

    def _post(self, slot: int, done: torch.Tensor) -> None:
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            self.flags[slot].copy_(done, non_blocking=True)
            done.record_stream(self.copy_stream)
            self.events[slot].record()

    def _finished(self, slot: int) -> bool:
        self.events[slot].synchronize()
        return bool(self.flags[slot])

    @torch.inference_mode()
    def decode(self, start: torch.Tensor, limit: int) -> list[list[int]]:
        for event in self.events:
            event.synchronize()
        batch = start.shape[0]
        token = start.to(self.device)
        state = torch.zeros(batch, self.width, device=self.device)
        ended = torch.zeros(batch, dtype=torch.bool, device=self.device)
        produced = []
        for step in range(limit):
            token, state = self.model(token, state)
            token = torch.where(ended, self.stop, token)
            ended = ended | (token == self.stop)
            produced.append(token)
            self._post(step % 2, ended.all())
            if step > 0 and self._finished((step - 1) % 2):
                break
        if not produced:
            return [[] for _ in range(batch)]
        rows = torch.stack(produced, dim=1).tolist()
        return [row[: row.index(self.stop)] if self.stop in row else row for row in rows]


def main() -> None:
    device = torch.device("cuda:0")
    torch.manual_seed(3)
    decoder = LaggedDecoder(StepModel(64, 128).to(device), 128, 0, device)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        start = torch.randint(1, 64, (8,), generator=generator)
        for row in decoder.decode(start, 40):
            print(len(row), row[:8])


if __name__ == "__main__":
    main()
