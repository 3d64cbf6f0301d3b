"""Decode loop that launches step n + 1 before the tokens of step n are looked at."""
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Request:
    slot: int
    max_new: int
    tokens: list = field(default_factory=list)

    @property
    def finished(self):
        return len(self.tokens) >= self.max_new


@dataclass
class LaunchedStep:
    requests: list
    host_tokens: torch.Tensor
    copy_done: torch.cuda.Event

    def resolve(self):
        self.copy_done.synchronize()
        return self.host_tokens.tolist()


class OverlapEngine:
    def __init__(self, model, capacity):
        self.model = model
        self.forward_stream = torch.cuda.Stream()
        self.last_token = torch.zeros(capacity, dtype=torch.int64, device="cuda")
        self.free_slots = list(range(capacity))
        self.running = []
        self.forward_stream.wait_stream(torch.cuda.current_stream())

    def admit(self, first_token, max_new):
        req = Request(self.free_slots.pop(), max_new)
        with torch.cuda.stream(self.forward_stream):
            self.last_token[req.slot].fill_(first_token)
        self.running.append(req)
        return req

    def _launch(self, requests):
        slots = torch.tensor([r.slot for r in requests], dtype=torch.int64).pin_memory()
        host_tokens = torch.empty(len(requests), dtype=torch.int64, pin_memory=True)
        with torch.cuda.stream(self.forward_stream):
            index = slots.to("cuda", non_blocking=True)
            logits = self.model(self.last_token[index])
            chosen = logits.argmax(dim=-1)
            self.last_token.index_copy_(0, index, chosen)
            host_tokens.copy_(chosen, non_blocking=True)
            copy_done = self.forward_stream.record_event()
        return LaunchedStep(requests, host_tokens, copy_done)

    def _process(self, step):
        for req, token in zip(step.requests, step.resolve()):
            if req.finished:
                continue
            req.tokens.append(token)
            if req.finished:
                self.running.remove(req)
                self.free_slots.append(req.slot)

    @torch.inference_mode()
    def run(self):
        previous = None
        while self.running or previous is not None:
            current = self._launch(list(self.running)) if self.running else None
            if previous is not None:
                self._process(previous)
            previous = current


def main():
    vocab = 32000
    model = nn.Sequential(nn.Embedding(vocab, 256), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, vocab)).cuda()
    engine = OverlapEngine(model, capacity=64)
    requests = [engine.admit(first_token=i * 17 % vocab, max_new=8 + i % 5) for i in range(48)]
    engine.run()
    for req in requests[:4]:
        print(req.slot, req.tokens)


if __name__ == "__main__":
    main()
