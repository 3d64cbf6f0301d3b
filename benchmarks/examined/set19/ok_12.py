"""Grammar-constrained speculative verify: the bitmask is built on the host under the target forward."""
from concurrent.futures import ThreadPoolExecutor

import torch


class BitmaskSlot:
    def __init__(self, rows, words):
        self.draft_host = torch.empty(rows, dtype=torch.int64, pin_memory=True)
        self.mask_host = torch.empty(rows, words, dtype=torch.int32, pin_memory=True)
        self.mask_gpu = torch.empty(rows, words, dtype=torch.int32, device="cuda")
        self.draft_ready = torch.cuda.Event()
        self.uploaded = torch.cuda.Event()
        self.applied = torch.cuda.Event()
        self.uploaded.record()
        self.applied.record()


class GrammarOverlapWorker:
    def __init__(self, grammar, target, max_rows, vocab):
        self.grammar = grammar
        self.target = target
        self.copy_stream = torch.cuda.Stream()
        self.slots = [BitmaskSlot(max_rows, (vocab + 31) // 32) for _ in range(2)]
        self.bits = torch.arange(32, device="cuda", dtype=torch.int32)
        self.vocab = vocab
        self.turn = 0
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.copy_stream.wait_stream(torch.cuda.current_stream())

    def _start_draft_copy(self, slot, draft_tokens):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            slot.draft_host[: draft_tokens.numel()].copy_(draft_tokens, non_blocking=True)
            slot.draft_ready.record(self.copy_stream)
        draft_tokens.record_stream(self.copy_stream)

    def _build(self, slot, n):
        slot.uploaded.synchronize()
        slot.draft_ready.synchronize()
        self.grammar.fill_bitmask(slot.draft_host[:n].tolist(), slot.mask_host[:n])

    def _upload(self, slot, n):
        self.copy_stream.wait_event(slot.applied)
        with torch.cuda.stream(self.copy_stream):
            slot.mask_gpu[:n].copy_(slot.mask_host[:n], non_blocking=True)
            slot.uploaded.record(self.copy_stream)

    def _apply(self, slot, logits, n):
        current = torch.cuda.current_stream()
        current.wait_event(slot.uploaded)
        allowed = (slot.mask_gpu[:n].unsqueeze(-1) >> self.bits) & 1
        allowed = allowed.view(n, -1)[:, : self.vocab].bool()
        logits = logits.masked_fill(~allowed, float("-inf"))
        slot.applied.record(current)
        return logits

    @torch.no_grad()
    def verify(self, hidden, draft_tokens):
        slot = self.slots[self.turn % 2]
        self.turn += 1
        n = draft_tokens.numel()
        self._start_draft_copy(slot, draft_tokens)
        future = self.pool.submit(self._build, slot, n)
        logits = self.target(hidden)
        future.result()
        self._upload(slot, n)
        logits = self._apply(slot, logits, n)
        accepted = logits.argmax(-1) == draft_tokens
        return accepted.cumprod(0), logits


def decode(worker, drafter, hidden, steps):
    accepted = []
    for _ in range(steps):
        draft = drafter(hidden)
        mask, logits = worker.verify(hidden, draft)
        hidden = drafter.advance(hidden, mask, logits)
        accepted.append(mask.sum())
    return torch.stack(accepted).tolist()
