"""Overlapped decode loop: the host prepares step n+1 while the device runs step n."""
from collections import deque
from dataclasses import dataclass, field

import torch


@dataclass
class Request:
    rid: int
    temperature: float
    top_p: float
    seed: int
    max_new_tokens: int
    output_ids: list = field(default_factory=list)

    @property
    def finished(self):
        return len(self.output_ids) >= self.max_new_tokens


class SamplingBackend:
    """Per-request sampling parameters, staged through page-locked memory."""

    def __init__(self, max_bs, device):
        self.device = device
        self.temperature_cpu = torch.empty(max_bs, dtype=torch.float32, pin_memory=True)
        self.top_p_cpu = torch.empty(max_bs, dtype=torch.float32, pin_memory=True)
        self.temperature = torch.ones(max_bs, device=device)
        self.top_p = torch.ones(max_bs, device=device)

    def prepare(self, reqs):
        bs = len(reqs)
        for i, req in enumerate(reqs):
            self.temperature_cpu[i] = req.temperature
            self.top_p_cpu[i] = req.top_p
        self.temperature[:bs].copy_(self.temperature_cpu[:bs], non_blocking=True)
        self.top_p[:bs].copy_(self.top_p_cpu[:bs], non_blocking=True)
        return bs

    def sample(self, logits, bs):
        probs = torch.softmax(logits / self.temperature[:bs, None], dim=-1)
        sorted_probs, order = probs.sort(dim=-1, descending=True)
        keep = sorted_probs.cumsum(-1) - sorted_probs < self.top_p[:bs, None]
        sorted_probs = sorted_probs * keep
        noise = torch.empty_like(sorted_probs).exponential_(1.0)
        picked = (sorted_probs / noise).argmax(dim=-1, keepdim=True)
        return order.gather(1, picked).squeeze(1)


class ModelExecutor:
    def __init__(self, model, max_bs, vocab_size, device):
        self.model = model
        self.device = device
        self.sampling = SamplingBackend(max_bs, device)
        self.last_ids = torch.zeros(max_bs, dtype=torch.long, device=device)

    @torch.inference_mode()
    def forward_step(self, reqs):
        bs = self.sampling.prepare(reqs)
        logits = self.model(self.last_ids[:bs])
        next_ids = self.sampling.sample(logits, bs)
        self.last_ids[:bs].copy_(next_ids)
        out = torch.empty(bs, dtype=torch.long, pin_memory=True)
        out.copy_(next_ids, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        return out, done


class OverlapScheduler:
    def __init__(self, executor, max_bs):
        self.executor = executor
        self.max_bs = max_bs
        self.waiting = deque()
        self.running = []

    def add(self, req):
        self.waiting.append(req)

    def _next_batch(self):
        self.running = [r for r in self.running if not r.finished]
        while self.waiting and len(self.running) < self.max_bs:
            self.running.append(self.waiting.popleft())
        return list(self.running)

    def _process(self, reqs, out, done):
        done.synchronize()
        for req, token in zip(reqs, out.tolist()):
            if not req.finished:
                req.output_ids.append(token)

    def event_loop(self):
        pending = None
        while True:
            batch = self._next_batch()
            if not batch and pending is None:
                return
            current = None
            if batch:
                out, done = self.executor.forward_step(batch)
                current = (batch, out, done)
            if pending is not None:
                self._process(*pending)
            pending = current
