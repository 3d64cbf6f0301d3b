"""Decode loop that overlaps result handling with the next forward step."""
from collections import deque
from dataclasses import dataclass, field

import torch


@dataclass
class Request:
    rid: int
    slot: int
    budget: int
    tokens: list = field(default_factory=list)
    finished: bool = False


class ResultCopier:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def _async_d2h(self, value):
        if isinstance(value, torch.Tensor):
            host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            host.copy_(value, non_blocking=True)
            value.record_stream(self.stream)
            return host
        if isinstance(value, dict):
            return {k: self._async_d2h(v) for k, v in value.items()}
        return [self._async_d2h(v) for v in value]

    def submit(self, value):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host = self._async_d2h(value)
            copy_done = torch.cuda.Event()
            copy_done.record()
        return host, copy_done


class Scheduler:
    def __init__(self, model, max_running=8):
        self.model = model
        self.copier = ResultCopier()
        self.relay = torch.zeros(max_running, dtype=torch.int64, device="cuda")
        self.free_slots = deque(range(max_running))
        self.waiting = deque()
        self.running = []
        self.pending = deque()
        self.done = {}

    def add(self, rid, budget):
        self.waiting.append((rid, budget))

    def _admit(self):
        while self.waiting and self.free_slots:
            rid, budget = self.waiting.popleft()
            slot = self.free_slots.popleft()
            self.relay[slot] = rid % 97
            self.running.append(Request(rid, slot, budget))

    def _launch(self, batch):
        slots = torch.tensor([r.slot for r in batch], pin_memory=True)
        slots = slots.to("cuda", non_blocking=True)
        logits = self.model(self.relay[slots])
        logprobs, next_ids = torch.log_softmax(logits, dim=-1).max(dim=-1)
        self.relay[slots] = next_ids
        host, copy_done = self.copier.submit({"ids": next_ids, "extras": [logprobs]})
        self.pending.append((batch, host, copy_done))

    def _process(self):
        batch, host, copy_done = self.pending.popleft()
        copy_done.synchronize()
        for req, token, _ in zip(batch, host["ids"].tolist(), host["extras"][0].tolist()):
            if req.finished:
                continue
            req.tokens.append(token)
            if len(req.tokens) >= req.budget:
                req.finished = True
                self.done[req.rid] = req.tokens
                self.free_slots.append(req.slot)
        self.running = [r for r in self.running if not r.finished]

    @torch.inference_mode()
    def loop(self):
        while self.waiting or self.running or self.pending:
            self._admit()
            if self.running:
                self._launch(list(self.running))
            if len(self.pending) > 1 or (self.pending and not self.running):
                self._process()
        return self.done


def main():
    model = torch.nn.Sequential(
        torch.nn.Embedding(97, 64), torch.nn.Linear(64, 256), torch.nn.SiLU(),
        torch.nn.Linear(256, 97),
    ).cuda()
    scheduler = Scheduler(model)
    for rid in range(20):
        scheduler.add(rid, 5 + rid % 7)
    return scheduler.loop()


if __name__ == "__main__":
    print(len(main()))
