from collections import deque

import torch


class MambaPool:
    def __init__(self, layers, slots, conv_dim, ssm_shape):
        self.conv = torch.zeros(layers, slots, conv_dim, device="cuda")
        self.ssm = torch.zeros(layers, slots, *ssm_shape, device="cuda")
        self.free_slots = list(range(slots))

    def alloc(self):
        return self.free_slots.pop()

    def copy_from(self, src, dst):
        self.conv[:, dst].copy_(self.conv[:, src])
        self.ssm[:, dst].copy_(self.ssm[:, src])

    def clear(self, slot):
        self.conv[:, slot].zero_()
        self.ssm[:, slot].zero_()


class MambaRadixCache:
    def __init__(self, pool):
        self.pool = pool
        self.entries = {}

    def cache_unfinished_req(self, req):
        key = tuple(req.tokens[: req.computed])
        if key in self.entries:
            return
        slot = self.pool.alloc()
        self.pool.copy_from(req.mamba_slot, slot)
        self.entries[key] = slot

    def match(self, tokens):
        best = max((k for k in self.entries if tuple(tokens[: len(k)]) == k), key=len, default=())
        return len(best), self.entries.get(best)


class Scheduler:
    """Overlap scheduler: the host prepares step N+1 while step N runs on forward_stream."""

    def __init__(self, model, pool, chunk):
        self.model, self.pool, self.chunk = model, pool, chunk
        self.cache = MambaRadixCache(pool)
        self.schedule_stream = torch.cuda.current_stream()
        self.forward_stream = torch.cuda.Stream()
        self.waiting, self.chunked = deque(), None

    def add(self, req):
        self.waiting.append(req)

    def get_next_batch_to_run(self):
        if self.chunked is not None:
            req = self.chunked
            self.cache.cache_unfinished_req(req)
        elif self.waiting:
            req = self.waiting.popleft()
            req.mamba_slot = self.pool.alloc()
            req.computed, hit = self.cache.match(req.tokens)
            if hit is None:
                self.pool.clear(req.mamba_slot)
            else:
                self.pool.copy_from(hit, req.mamba_slot)
        else:
            return None
        end = min(req.computed + self.chunk, len(req.tokens))
        ids = torch.tensor(req.tokens[req.computed : end], pin_memory=True).to("cuda", non_blocking=True)
        req.computed = end
        self.chunked = req if end < len(req.tokens) else None
        return req, ids

    def run_batch(self, req, ids):
        self.forward_stream.wait_stream(self.schedule_stream)
        with torch.cuda.stream(self.forward_stream):
            ids.record_stream(self.forward_stream)
            logits = self.model.forward(ids, self.pool.conv, self.pool.ssm, req.mamba_slot)
            token = logits[-1].argmax().to("cpu", non_blocking=True)
            copy_done = torch.cuda.Event()
            copy_done.record()
        return token, copy_done

    def process_batch_result(self, req, result):
        token, copy_done = result
        copy_done.synchronize()
        if req is not self.chunked and req.computed == len(req.tokens):
            req.output.append(int(token))

    @torch.inference_mode()
    def event_loop_overlap(self):
        last = None
        while True:
            batch = self.get_next_batch_to_run()
            result = self.run_batch(*batch) if batch is not None else None
            if last is not None:
                self.process_batch_result(*last)
            last = (batch[0], result) if batch is not None else None
            if batch is None and last is None and not self.waiting:
                return
