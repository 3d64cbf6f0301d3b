from collections import deque

import torch


class FutureMap:
    """Device ring that holds sampled tokens before the host has seen them."""

    def __init__(self, capacity, device):
        self.buf = torch.zeros(capacity, dtype=torch.int64, device=device)
        self.capacity = capacity
        self.next = 0

    def alloc(self, n):
        if self.next + n > self.capacity:
            self.next = 0
        start = self.next
        self.next += n
        return slice(start, start + n)


class OverlapRunner:
    def __init__(self, model, max_batch, device="cuda"):
        self.model = model
        self.device = torch.device(device)
        self.forward_stream = torch.cuda.Stream(self.device)
        self.future_map = FutureMap(8 * max_batch, self.device)
        self._next_tokens_bufs = [
            torch.empty(max_batch, dtype=torch.int64, pin_memory=True) for _ in range(2)
        ]
        self._events = [torch.cuda.Event() for _ in range(2)]
        self._buf_idx = 0
        torch.cuda.synchronize(self.device)

    @torch.inference_mode()
    def run_batch_async(self, prev_slots, positions):
        n = prev_slots.stop - prev_slots.start
        idx = self._buf_idx
        self._buf_idx = 1 - idx
        host = self._next_tokens_bufs[idx]
        out_slots = self.future_map.alloc(n)
        pos_cpu = torch.tensor(positions, dtype=torch.int64).pin_memory()
        with torch.cuda.stream(self.forward_stream):
            pos = pos_cpu.to(self.device, non_blocking=True)
            ids = self.future_map.buf[prev_slots]
            logits = self.model(ids, pos)
            nxt = logits.argmax(-1)
            self.future_map.buf[out_slots] = nxt
            host[:n].copy_(nxt, non_blocking=True)
            self._events[idx].record(self.forward_stream)
        return out_slots, idx, n

    def collect(self, idx, n):
        self._events[idx].synchronize()
        return self._next_tokens_bufs[idx][:n].tolist()

    def seed(self, tokens):
        slots = self.future_map.alloc(len(tokens))
        host = torch.tensor(tokens, dtype=torch.int64)
        with torch.cuda.stream(self.forward_stream):
            self.future_map.buf[slots] = host.to(self.device)
        return slots


def overlap_loop(runner, prompts, steps, on_tokens):
    slots = runner.seed(prompts)
    positions = [0] * len(prompts)
    inflight = deque()
    for _ in range(steps):
        slots, idx, n = runner.run_batch_async(slots, positions)
        inflight.append((idx, n))
        positions = [p + 1 for p in positions]
        if len(inflight) == 2:
            on_tokens(runner.collect(*inflight.popleft()))
    while inflight:
        on_tokens(runner.collect(*inflight.popleft()))
