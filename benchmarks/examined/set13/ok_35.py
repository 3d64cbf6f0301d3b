from collections import deque
from dataclasses import dataclass

import torch


@dataclass
class InFlight:
    request_ids: list
    device_ids: torch.Tensor
    host_ids: torch.Tensor
    copy_done: torch.cuda.Event


class OutputReader:
    def __init__(self, max_batch, device):
        self.max_batch = max_batch
        self.copy_stream = torch.cuda.Stream(device)
        self.pending = deque()
        self.free_buffers = []

    def _buffer(self):
        if self.free_buffers:
            return self.free_buffers.pop()
        return torch.empty(self.max_batch, dtype=torch.long, pin_memory=True)

    def submit(self, request_ids, device_ids):
        host = self._buffer()
        event = torch.cuda.Event()
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            host[: len(request_ids)].copy_(device_ids, non_blocking=True)
            event.record(self.copy_stream)
        self.pending.append(InFlight(request_ids, device_ids, host, event))

    def _take(self):
        item = self.pending.popleft()
        tokens = item.host_ids[: len(item.request_ids)].tolist()
        self.free_buffers.append(item.host_ids)
        return list(zip(item.request_ids, tokens))

    def poll(self):
        out = []
        while self.pending and self.pending[0].copy_done.query():
            out.extend(self._take())
        return out

    def drain(self):
        out = []
        while self.pending:
            self.pending[0].copy_done.synchronize()
            out.extend(self._take())
        return out


class OverlapEngine:
    def __init__(self, model, max_batch, device="cuda"):
        self.model = model
        self.device = device
        self.reader = OutputReader(max_batch, device)
        self.future_ids = torch.zeros(max_batch, dtype=torch.long, device=device)

    @torch.inference_mode()
    def generate(self, prompts, steps, on_token):
        n = len(prompts)
        request_ids = list(range(n))
        self.future_ids[:n] = torch.tensor([p[-1] for p in prompts], device=self.device)
        for _ in range(steps):
            logits = self.model(self.future_ids[:n])
            next_ids = logits.argmax(dim=-1)
            self.reader.submit(request_ids, next_ids)
            self.future_ids[:n].copy_(next_ids)
            for rid, token in self.reader.poll():
                on_token(rid, token)
        for rid, token in self.reader.drain():
            on_token(rid, token)
