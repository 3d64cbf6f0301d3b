"""Engine loop with two decode steps in flight."""
from dataclasses import dataclass

import torch


@dataclass
class StepResult:
    step: int
    rows: list
    host: torch.Tensor
    copied: torch.cuda.Event

    def tokens(self):
        self.copied.synchronize()
        return dict(zip(self.rows, self.host[:len(self.rows)].tolist()))


class Executor:
    RING = 3

    def __init__(self, slots, hidden, vocab):
        self.last_token = torch.zeros(slots, dtype=torch.long, device="cuda")
        self.table = torch.randn(vocab, hidden, device="cuda", dtype=torch.half)
        self.head = torch.randn(hidden, vocab, device="cuda", dtype=torch.half)
        self.row_ids = torch.zeros(self.RING, slots, dtype=torch.long, pin_memory=True)
        self.snapshot = torch.zeros(self.RING, slots, dtype=torch.long, device="cuda")
        self.readback = torch.zeros(self.RING, slots, dtype=torch.long, pin_memory=True)
        self.copied = [torch.cuda.Event() for _ in range(self.RING)]
        self.issued = 0
        self.compute = torch.cuda.Stream()
        self.copy = torch.cuda.Stream()
        self.compute.wait_stream(torch.cuda.current_stream())

    def issue(self, rows):
        lane = self.issued % self.RING
        if self.issued >= self.RING:
            self.copied[lane].synchronize()
        n = len(rows)
        self.row_ids[lane, :n] = torch.tensor(rows)
        with torch.cuda.stream(self.compute):
            index = self.row_ids[lane, :n].to("cuda", non_blocking=True)
            hidden = torch.tanh(self.table[self.last_token[index]])
            next_tokens = (hidden @ self.head).argmax(-1)
            self.last_token[index] = next_tokens
            self.snapshot[lane, :n].copy_(next_tokens)
            sampled = torch.cuda.Event()
            sampled.record()
        with torch.cuda.stream(self.copy):
            self.copy.wait_event(sampled)
            self.readback[lane, :n].copy_(self.snapshot[lane, :n], non_blocking=True)
            self.copied[lane].record()
        self.issued += 1
        return StepResult(self.issued - 1, list(rows), self.readback[lane], self.copied[lane])


class Engine:
    def __init__(self, executor, max_new_tokens):
        self.executor = executor
        self.max_new_tokens = max_new_tokens
        self.generated = {}
        self.in_flight = []

    def _apply(self, result):
        for row, token in result.tokens().items():
            out = self.generated.setdefault(row, [])
            if len(out) < self.max_new_tokens:
                out.append(token)

    def _plan(self, rows):
        pending = len(self.in_flight)
        return [r for r in rows if len(self.generated.get(r, [])) + pending < self.max_new_tokens]

    def run(self, rows):
        while True:
            plan = self._plan(rows)
            if plan:
                self.in_flight.append(self.executor.issue(plan))
            if not self.in_flight:
                return self.generated
            if len(self.in_flight) == 2 or not plan:
                self._apply(self.in_flight.pop(0))


if __name__ == "__main__":
    engine = Engine(Executor(slots=256, hidden=1024, vocab=32000), max_new_tokens=64)
    print(sum(len(v) for v in engine.run(list(range(128))).values()))
