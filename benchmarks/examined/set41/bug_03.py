"""Overlapped scheduler for a recurrent-state model with a prefix state cache."""
from dataclasses import dataclass, field
from typing import Optional

import torch


@dataclass
class Seq:
    sid: int
    remaining: int
    slot: int
    done_tokens: int = 0
    prefix: list = field(default_factory=list)


@dataclass
class Batch:
    seqs: list
    chunked: Optional[Seq] = None


@dataclass
class Result:
    batch: Batch
    copy_done: torch.cuda.Event
    logits_cpu: torch.Tensor


class StatePool:
    def __init__(self, slots, dim):
        self.live = torch.zeros(slots, dim, device="cuda")
        self.saved = torch.zeros(slots * 4, dim, device="cuda")
        self.index = {}
        self._next = 0

    def snapshot(self, seq):
        row = self._next % self.saved.shape[0]
        self._next += 1
        self.saved[row].copy_(self.live[seq.slot])
        self.index[(seq.sid, seq.done_tokens)] = row


class Scheduler:
    CHUNK = 256

    def __init__(self, seqs, dim=1024):
        self.waiting = list(seqs)
        self.pool = StatePool(len(seqs) + 1, dim)
        self.mix = torch.randn(dim, dim, device="cuda") * 0.02
        self.head = torch.randn(dim, 4096, device="cuda") * 0.02
        self.forward_stream = torch.cuda.Stream()
        self.slot_ids = torch.arange(len(seqs) + 1, device="cuda")
        self.chunked = None

    def next_batch(self):
        if self.chunked is not None:
            self.pool.snapshot(self.chunked)
            seq = self.chunked
        elif self.waiting:
            seq = self.waiting.pop(0)
        else:
            return None
        take = min(self.CHUNK, seq.remaining)
        seq.remaining -= take
        seq.done_tokens += take
        self.chunked = seq if seq.remaining else None
        return Batch([seq], self.chunked)

    def launch(self, batch):
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            for seq in batch.seqs:
                state = self.pool.live[seq.slot]
                for _ in range(8):
                    state = torch.tanh(state @ self.mix + 0.1)
                self.pool.live[seq.slot].copy_(state)
            slots = torch.cat([self.slot_ids[s.slot: s.slot + 1] for s in batch.seqs])
            logits = self.pool.live[slots] @ self.head
            host = logits.to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        return Result(batch, done, host)

    def finish(self, result):
        result.copy_done.synchronize()
        for seq in result.batch.seqs:
            if seq is not result.batch.chunked:
                self.pool.snapshot(seq)
        return result.logits_cpu.argmax(-1).tolist()

    def run(self):
        inflight, tokens = None, []
        while True:
            batch = self.next_batch()
            current = self.launch(batch) if batch else None
            if inflight is not None:
                tokens += self.finish(inflight)
            if current is None:
                break
            inflight = current
        return tokens


if __name__ == "__main__":
    sched = Scheduler([Seq(i, 200 + 300 * i, i) for i in range(6)])
    print(sched.run())
