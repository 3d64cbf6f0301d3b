"""Overlap event loop: schedule on one stream, run the forward pass on another."""
from collections import deque

import torch


class ReqToTokenPool:
    def __init__(self, size, max_len, device):
        self.req_to_token = torch.zeros(size, max_len, dtype=torch.int32, device=device)
        self.free_slots = list(range(size))

    def alloc(self):
        return self.free_slots.pop(0)

    def free(self, idx):
        self.free_slots.append(idx)


class TokenToKVPool:
    def __init__(self, num_slots, dim, layers, device):
        self.kv = torch.zeros(layers, num_slots, dim, dtype=torch.bfloat16, device=device)
        self.free = deque(range(1, num_slots))

    def alloc(self, n):
        return [self.free.popleft() for _ in range(n)]


class DecodeBatch:
    def __init__(self, reqs, req_indices, seq_lens, input_ids):
        self.reqs = reqs
        self.req_indices = req_indices
        self.seq_lens = seq_lens
        self.input_ids = input_ids


class Scheduler:
    def __init__(self, model, req_pool, kv_pool, device):
        self.model = model
        self.req_pool = req_pool
        self.kv_pool = kv_pool
        self.device = device
        self.schedule_stream = torch.cuda.Stream(device=device)
        self.forward_stream = torch.cuda.Stream(device=device)
        current = torch.cuda.current_stream(device)
        self.schedule_stream.wait_stream(current)
        self.forward_stream.wait_stream(current)
        self.last_token = torch.zeros(req_pool.req_to_token.shape[0], dtype=torch.int64, device=device)
        self.forward_stream.wait_stream(current)
        self.waiting, self.running = [], []

    def prepare_for_decode(self):
        slots = self.kv_pool.alloc(len(self.running))
        rows = torch.tensor([r.pool_idx for r in self.running]).to(self.device)
        cols = torch.tensor([r.length for r in self.running]).to(self.device)
        locs = torch.tensor(slots, dtype=torch.int32).to(self.device)
        self.req_pool.req_to_token[rows, cols] = locs
        for r in self.running:
            r.length += 1
        return DecodeBatch(list(self.running), rows, cols + 1, None)

    def run_batch(self, batch):
        self.forward_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.forward_stream):
            for t in (batch.req_indices, batch.seq_lens):
                t.record_stream(self.forward_stream)
            ids = self.last_token[batch.req_indices]
            logits = self.model(
                ids, batch.seq_lens, self.req_pool.req_to_token[batch.req_indices], self.kv_pool.kv
            )
            next_ids = logits.argmax(dim=-1)
            self.last_token[batch.req_indices] = next_ids
            out = torch.empty(next_ids.shape, dtype=torch.int64, pin_memory=True)
            out.copy_(next_ids, non_blocking=True)
            done = self.forward_stream.record_event()
        return out, done

    def process(self, batch, result):
        out, done = result
        done.synchronize()
        for r, token in zip(batch.reqs, out.tolist()):
            r.output.append(token)
            if r.finished() and r in self.running:
                self.running.remove(r)
                self.req_pool.free(r.pool_idx)

    def admit(self):
        while self.waiting and self.req_pool.free_slots:
            r = self.waiting.pop()
            r.pool_idx = self.req_pool.alloc()
            prefix = self.kv_pool.alloc(r.length)
            self.req_pool.req_to_token[r.pool_idx, : r.length] = torch.tensor(
                prefix, dtype=torch.int32
            ).to(self.device)
            self.running.append(r)

    @torch.inference_mode()
    def event_loop_overlap(self):
        last = None
        with torch.cuda.stream(self.schedule_stream):
            while self.waiting or self.running or last is not None:
                self.schedule_stream.wait_stream(self.forward_stream)
                self.admit()
                current = None
                if self.running:
                    batch = self.prepare_for_decode()
                    current = (batch, self.run_batch(batch))
                if last is not None:
                    self.process(*last)
                last = current
