"""Overlapped scheduling: forward of step N+1 is launched before step N is read."""
from dataclasses import dataclass

import torch


@dataclass
class LaunchedBatch:
    seqs: list
    done: torch.cuda.Event
    buf_idx: int
    count: int
    slot_ids: list


class FutureMap:
    """Device side ring of sampled tokens; negative ids refer to its slots."""

    def __init__(self, size, device):
        self.size = size
        self.tokens = torch.zeros(size, dtype=torch.int64, device=device)
        self.cursor = 0

    def alloc(self, n):
        slots = [(self.cursor + i) % self.size for i in range(n)]
        self.cursor = (self.cursor + n) % self.size
        return slots

    def resolve_(self, ids):
        is_future = ids < 0
        ids.copy_(torch.where(is_future, self.tokens[(-ids - 1).clamp(min=0)], ids))

    def store(self, slots, tokens):
        self.tokens[slots] = tokens


class ModelRunner:
    def __init__(self, model, max_bs, device):
        self.model = model
        self.device = device
        self.forward_stream = torch.cuda.Stream(device=device)
        self.forward_stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.forward_stream):
            self.future_map = FutureMap(8 * max_bs, device)
        self.next_tokens_bufs = [
            torch.empty(max_bs, dtype=torch.int64, pin_memory=True) for _ in range(2)
        ]
        self.next_tokens_buf_idx = 0

    @torch.inference_mode()
    def run_batch_async(self, seqs):
        n = len(seqs)
        buf_idx = self.next_tokens_buf_idx
        self.next_tokens_buf_idx = 1 - buf_idx
        slots = self.future_map.alloc(n)
        ids_cpu = torch.tensor([s.last_token for s in seqs], dtype=torch.int64).pin_memory()
        slots_cpu = torch.tensor(slots, dtype=torch.int64).pin_memory()
        with torch.cuda.stream(self.forward_stream):
            ids = ids_cpu.to(self.device, non_blocking=True)
            slots_dev = slots_cpu.to(self.device, non_blocking=True)
            self.future_map.resolve_(ids)
            tokens = self.model(ids).argmax(dim=-1)
            self.future_map.store(slots_dev, tokens)
            self.next_tokens_bufs[buf_idx][:n].copy_(tokens, non_blocking=True)
            done = torch.cuda.Event()
            done.record(self.forward_stream)
        for seq, slot in zip(seqs, slots):
            seq.last_token = -slot - 1
        return LaunchedBatch(seqs, done, buf_idx, n, slots)

    def collect(self, launched):
        launched.done.synchronize()
        return self.next_tokens_bufs[launched.buf_idx][: launched.count].tolist()


class OverlapEngine:
    def __init__(self, model, scheduler, max_bs, device):
        self.runner = ModelRunner(model, max_bs, device)
        self.scheduler = scheduler

    def _process(self, launched):
        for seq, slot, token in zip(
            launched.seqs, launched.slot_ids, self.runner.collect(launched)
        ):
            seq.output.append(token)
            if seq.last_token == -slot - 1:
                seq.last_token = token
        self.scheduler.update(launched.seqs)

    def run(self):
        previous = None
        while True:
            seqs = self.scheduler.schedule()
            launched = self.runner.run_batch_async(seqs) if seqs else None
            if previous is not None:
                self._process(previous)
            previous = launched
            if previous is None and not self.scheduler.has_unfinished():
                return


def serve(model, scheduler, max_bs=256):
    device = torch.device("cuda", 0)
    OverlapEngine(model.to(device), scheduler, max_bs, device).run()
