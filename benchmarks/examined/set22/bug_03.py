"""Decode loop with one step of lookahead and draft-token metadata staged through host buffers."""
from dataclasses import dataclass

import numpy as np
import torch


class CpuGpuBuffer:
    def __init__(self, size, dtype, device):
        self.cpu = torch.zeros(size, dtype=dtype, pin_memory=True)
        self.np = self.cpu.numpy()
        self.gpu = torch.zeros(size, dtype=dtype, device=device)

    def copy_to_gpu(self, n):
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


@dataclass
class PendingOutput:
    req_ids: list
    token_ids_cpu: torch.Tensor
    ready: torch.cuda.Event

    def get(self):
        self.ready.synchronize()
        return dict(zip(self.req_ids, self.token_ids_cpu.tolist()))


class DraftModelRunner:
    def __init__(self, target, drafter, max_reqs, device):
        self.target = target
        self.drafter = drafter
        self.device = device
        self.num_draft_tokens = CpuGpuBuffer(max_reqs, torch.int32, device)
        self.positions = CpuGpuBuffer(max_reqs, torch.int64, device)
        self.last_tokens = torch.zeros(max_reqs, dtype=torch.int64, device=device)
        self.output_stream = torch.cuda.Stream(device)

    def prepare_inputs(self, batch):
        n = len(batch)
        for i, req in enumerate(batch):
            self.num_draft_tokens.np[i] = req["num_draft"]
            self.positions.np[i] = req["position"]
            req["position"] += 1
        draft_lens = self.num_draft_tokens.copy_to_gpu(n)
        positions = self.positions.copy_to_gpu(n)
        return draft_lens, positions

    @torch.inference_mode()
    def execute(self, batch):
        n = len(batch)
        draft_lens, positions = self.prepare_inputs(batch)
        proposal = self.drafter(self.last_tokens[:n], positions, draft_lens)
        logits = self.target(proposal, positions, draft_lens)
        sampled = logits.argmax(dim=-1)
        self.last_tokens[:n] = sampled
        return self.to_host(sampled, batch)

    def to_host(self, sampled, batch):
        compute = torch.cuda.current_stream(self.device)
        host = torch.empty(sampled.shape, dtype=sampled.dtype, pin_memory=True)
        ready = torch.cuda.Event()
        self.output_stream.wait_stream(compute)
        with torch.cuda.stream(self.output_stream):
            host.copy_(sampled, non_blocking=True)
            sampled.record_stream(self.output_stream)
            ready.record(self.output_stream)
        return PendingOutput([r["id"] for r in batch], host, ready)


def serve(runner, scheduler):
    previous = None
    while scheduler.has_requests():
        batch = scheduler.schedule()
        current = runner.execute(batch)
        if previous is not None:
            scheduler.update(previous.get())
        previous = current
    if previous is not None:
        scheduler.update(previous.get())
    return np.asarray(scheduler.lengths())
