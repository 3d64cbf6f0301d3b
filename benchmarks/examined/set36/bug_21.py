"""Overlapped scheduler: batches are assembled on one stream, the model runs on another."""
from collections import deque
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Request:
    rid: int
    slot: int
    tokens: list = field(default_factory=list)
    limit: int = 64

    @property
    def done(self):
        return len(self.tokens) >= self.limit


@dataclass
class ForwardInputs:
    input_ids: torch.Tensor
    seq_lens: torch.Tensor
    mix_indices: torch.Tensor


class RelayTable:
    """Last sampled token of each slot, kept on the device."""

    def __init__(self, max_slots, device):
        self.last = torch.zeros(max_slots, dtype=torch.int64, device=device)

    def gather(self, idx):
        return self.last.index_select(0, idx)

    def scatter(self, idx, values):
        self.last.index_copy_(0, idx, values)


class OverlapScheduler:
    def __init__(self, model: nn.Module, max_slots=512, device="cuda"):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.schedule_stream = torch.cuda.Stream()
        self.forward_stream = torch.cuda.Stream()
        self.relay = RelayTable(max_slots, self.device)
        torch.cuda.synchronize()
        self.running: list[Request] = []
        self.waiting: deque = deque()
        self.pending: deque = deque()

    def add(self, req):
        self.waiting.append(req)

    def _upload(self, values, dtype=torch.int64):
        host = torch.tensor(values, dtype=dtype).pin_memory()
        return host.to(self.device, non_blocking=True)

    def build(self):
        while self.waiting and len(self.running) < 256:
            self.running.append(self.waiting.popleft())
        self.running = [r for r in self.running if not r.done]
        if not self.running:
            return None, []
        reqs = list(self.running)
        inputs = ForwardInputs(
            input_ids=self._upload([r.tokens[-1] if r.tokens else 1 for r in reqs]),
            seq_lens=self._upload([len(r.tokens) + 1 for r in reqs]),
            mix_indices=self._upload([r.slot for r in reqs]),
        )
        return inputs, reqs

    @torch.no_grad()
    def forward(self, inputs: ForwardInputs):
        self.forward_stream.wait_stream(self.schedule_stream)
        inputs.input_ids.record_stream(self.forward_stream)
        inputs.seq_lens.record_stream(self.forward_stream)
        with torch.cuda.stream(self.forward_stream):
            relayed = self.relay.gather(inputs.mix_indices)
            ids = torch.where(inputs.seq_lens > 1, relayed, inputs.input_ids)
            logits = self.model(ids)
            nxt = logits.argmax(dim=-1)
            self.relay.scatter(inputs.mix_indices, nxt)
            host = torch.empty(nxt.shape, dtype=nxt.dtype, pin_memory=True)
            host.copy_(nxt, non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(self.forward_stream)
        return host, copied

    def process(self, reqs, host, copied):
        copied.synchronize()
        for req, tok in zip(reqs, host.tolist()):
            req.tokens.append(tok)

    def run(self):
        with torch.cuda.stream(self.schedule_stream):
            while True:
                inputs, reqs = self.build()
                if reqs:
                    self.pending.append((reqs, *self.forward(inputs)))
                    inputs = None
                if not reqs and not self.pending:
                    return
                if len(self.pending) > 1 or not reqs:
                    self.process(*self.pending.popleft())


def main():
    vocab = 32000
    model = nn.Sequential(nn.Embedding(vocab, 1024), nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, vocab))
    sched = OverlapScheduler(model)
    for i in range(300):
        sched.add(Request(rid=i, slot=i))
    sched.run()


if __name__ == "__main__":
    main()
