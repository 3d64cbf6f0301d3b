"""Batched policy inference for many environments with fixed bucket sizes."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Bucket:
    size: int
    obs_dim: int
    device: torch.device
    host: torch.Tensor = field(init=False)
    dev: torch.Tensor = field(init=False)
    copied: torch.cuda.Event = field(init=False)

    def __post_init__(self):
        self.host = torch.zeros(self.size, self.obs_dim, pin_memory=True)
        self.dev = torch.zeros(self.size, self.obs_dim, device=self.device)
        self.copied = torch.cuda.Event()


class Pending:
    def __init__(self, actions, count, event):
        self.actions, self.count, self.event = actions, count, event

    def result(self):
        self.event.synchronize()
        return self.actions[: self.count]


class FixedBatchedInference:
    def __init__(self, policy: nn.Module, obs_dim, sizes=(8, 32, 128), device="cuda"):
        self.device = torch.device(device)
        self.policy = policy.to(self.device).eval()
        self.copy_stream = torch.cuda.Stream(self.device)
        self.compute_stream = torch.cuda.Stream(self.device)
        self.buckets = {n: Bucket(n, obs_dim, self.device) for n in sorted(sizes)}
        torch.cuda.synchronize(self.device)

    def _pick(self, n):
        for size, bucket in self.buckets.items():
            if n <= size:
                return bucket
        raise ValueError(f"batch of {n} is larger than any bucket")

    def _stage(self, bucket, observations):
        bucket.copied.synchronize()
        n = len(observations)
        torch.stack(observations, out=bucket.host[:n])
        bucket.host[n:].zero_()
        with torch.cuda.stream(self.copy_stream):
            bucket.dev.copy_(bucket.host, non_blocking=True)
            bucket.copied.record()

    @torch.inference_mode()
    def submit(self, observations):
        bucket = self._pick(len(observations))
        self._stage(bucket, observations)
        with torch.cuda.stream(self.compute_stream):
            self.compute_stream.wait_event(bucket.copied)
            logits = self.policy(bucket.dev)
            actions = torch.empty(bucket.size, dtype=torch.int64, pin_memory=True)
            actions.copy_(logits.argmax(-1), non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        return Pending(actions, len(observations), done)


class Collector:
    """Keeps up to ``depth`` groups of environments in flight."""

    def __init__(self, inference, groups, depth=2):
        self.inference, self.groups, self.depth = inference, groups, depth

    def run(self, steps):
        flight, taken = [], 0
        for t in range(steps):
            group = self.groups[t % len(self.groups)]
            flight.append((group, self.inference.submit(group.observations())))
            if len(flight) >= self.depth:
                g, pending = flight.pop(0)
                taken += g.step(pending.result().tolist())
        for g, pending in flight:
            taken += g.step(pending.result().tolist())
        return taken
