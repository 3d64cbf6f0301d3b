"""Greedy decoding that inspects tokens one step behind the device."""
from typing import List

import torch
from torch import nn


class LaggedDecoder:
    def __init__(self, vocab: int, dim: int, eos: int, device: torch.device, max_batch: int = 64):
        self.device = device
        self.eos = eos
        self.max_batch = max_batch
        self.embed = nn.Embedding(vocab, dim, device=device)
        self.cell = nn.GRUCell(dim, dim, device=device)
        self.head = nn.Linear(dim, vocab, device=device)
        self.copy_stream = torch.cuda.Stream(device=device)
        self.host = torch.empty(2, max_batch, dtype=torch.long, pin_memory=True)
        self.landed = [torch.cuda.Event(), torch.cuda.Event()]

    def _step(self, tokens: torch.Tensor, state: torch.Tensor):
        state = self.cell(self.embed(tokens), state)
        return self.head(state).argmax(dim=-1), state

    def _send(self, k: int, tokens: torch.Tensor) -> None:
        self.copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.copy_stream):
            self.host[k, : tokens.shape[0]].copy_(tokens, non_blocking=True)
            self.landed[k].record(self.copy_stream)
        tokens.record_stream(self.copy_stream)

    def _collect(self, k: int, outputs: List[List[int]], alive: List[bool]) -> bool:
        self.landed[k].synchronize()
        for row, token in enumerate(self.host[k, : len(outputs)].tolist()):
            if not alive[row]:
                continue
            if token == self.eos:
                alive[row] = False
            else:
                outputs[row].append(token)
        return any(alive)

    @torch.no_grad()
    def generate(self, first: torch.Tensor, limit: int) -> List[List[int]]:
        n = first.shape[0]
        if n > self.max_batch:
            raise ValueError("batch too large")
        outputs: List[List[int]] = [[] for _ in range(n)]
        alive = [True] * n
        tokens = first.to(self.device)
        state = torch.zeros(n, self.cell.hidden_size, device=self.device)
        pending = None
        for step in range(limit):
            tokens, state = self._step(tokens, state)
            self._send(step % 2, tokens)
            if pending is not None and not self._collect(pending, outputs, alive):
                return outputs
            pending = step % 2
        if pending is not None:
            self._collect(pending, outputs, alive)
        return outputs


def generate_all(decoder: LaggedDecoder, starts: List[int], limit: int) -> List[List[int]]:
    done: List[List[int]] = []
    for i in range(0, len(starts), decoder.max_batch):
        first = torch.tensor(starts[i : i + decoder.max_batch])
        done.extend(decoder.generate(first, limit))
    return done
