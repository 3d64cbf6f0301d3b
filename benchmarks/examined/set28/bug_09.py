from collections import deque

import torch


class AttentionMetadata:
    def __init__(self, max_seqs, max_blocks):
        self.kv_lens = torch.zeros(max_seqs, dtype=torch.int32, pin_memory=True)
        self.block_ids = torch.zeros(max_seqs, max_blocks, dtype=torch.int32, pin_memory=True)
        self.kv_lens_cuda = torch.zeros(max_seqs, dtype=torch.int32, device="cuda")
        self.block_ids_cuda = torch.zeros(max_seqs, max_blocks, dtype=torch.int32, device="cuda")

    def prepare(self, requests):
        n = len(requests)
        for i, r in enumerate(requests):
            self.kv_lens[i] = r.cached_tokens + 1
            self.block_ids[i, : len(r.blocks)] = torch.as_tensor(r.blocks, dtype=torch.int32)
        self.kv_lens_cuda[:n].copy_(self.kv_lens[:n], non_blocking=True)
        self.block_ids_cuda[:n].copy_(self.block_ids[:n], non_blocking=True)


class ModelEngine:
    def __init__(self, model, max_seqs, max_blocks, hidden_vocab):
        self.model = model
        self.metadata = AttentionMetadata(max_seqs, max_blocks)
        self.tokens_cuda = torch.zeros(max_seqs, dtype=torch.int64, device="cuda")
        self.graphs = {}

    def _run(self, n):
        md = self.metadata
        return self.model(self.tokens_cuda[:n], md.kv_lens_cuda[:n], md.block_ids_cuda[:n])

    @torch.inference_mode()
    def warmup(self, sizes):
        for n in sizes:
            self._run(n)
            torch.cuda.synchronize()
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                logits = self._run(n)
            self.graphs[n] = (g, logits)

    @torch.inference_mode()
    def forward(self, requests, previous_tokens):
        n = len(requests)
        self.metadata.prepare(requests)
        if previous_tokens is not None:
            self.tokens_cuda[:n].copy_(previous_tokens)
        g, logits = self.graphs[n]
        g.replay()
        return logits


class Sampler:
    def __init__(self, max_seqs):
        self.host = [torch.empty(max_seqs, dtype=torch.int64, pin_memory=True) for _ in range(2)]
        self.turn = 0

    def sample_async(self, logits):
        tokens = logits.argmax(dim=-1)
        host = self.host[self.turn][: tokens.numel()]
        self.turn ^= 1
        host.copy_(tokens, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return tokens, host, event


class PyExecutor:
    def __init__(self, engine, sampler, scheduler):
        self.engine, self.sampler, self.scheduler = engine, sampler, scheduler

    def loop_overlap(self):
        previous = deque()
        device_tokens = None
        while True:
            batch = self.scheduler.schedule()
            if not batch and not previous:
                return
            if batch:
                logits = self.engine.forward(batch, device_tokens)
                device_tokens, host, event = self.sampler.sample_async(logits)
                previous.append((batch, host, event))
                for r in batch:
                    r.cached_tokens += 1
            if len(previous) > 1 or not batch:
                done, host, event = previous.popleft()
                event.synchronize()
                self.scheduler.update(done, host.tolist())
