import threading
from typing import Optional

import numpy as np
import torch
import torch.nn as nn


class HostShmWeightSlots:
    """Two host slots with sequence counters; the writer fills the one not current."""

    def __init__(self, numel: int):
        self.slots = [np.zeros(numel, dtype=np.float32) for _ in range(2)]
        self.seq = [0, 0]
        self.version = 0
        self.lock = threading.Lock()


class WeightPublisher:
    def __init__(self, module: nn.Module, slots: HostShmWeightSlots):
        self.params = list(module.parameters())
        self.slots = slots
        numel = sum(p.numel() for p in self.params)
        device = self.params[0].device
        self.flat = torch.empty(numel, dtype=torch.float32, device=device)
        self.pinned = torch.empty(numel, dtype=torch.float32, pin_memory=True)
        self.copied = torch.cuda.Event()

    @torch.no_grad()
    def publish(self) -> int:
        torch.cat([p.detach().reshape(-1) for p in self.params], out=self.flat)
        self.pinned.copy_(self.flat, non_blocking=True)
        self.copied.record()
        target = (self.slots.version + 1) % 2
        self.copied.synchronize()
        with self.slots.lock:
            self.slots.seq[target] += 1
            np.copyto(self.slots.slots[target], self.pinned.numpy())
            self.slots.seq[target] += 1
            self.slots.version += 1
        return self.slots.version


class WeightSubscriber:
    def __init__(self, module: nn.Module, slots: HostShmWeightSlots):
        self.params = list(module.parameters())
        self.slots = slots
        numel = sum(p.numel() for p in self.params)
        self.host = torch.empty(numel, dtype=torch.float32, pin_memory=True)
        self.device_flat = torch.empty(numel, dtype=torch.float32, device=self.params[0].device)
        self.uploaded: Optional[torch.cuda.Event] = None
        self.version = 0

    @torch.no_grad()
    def sync(self) -> bool:
        if self.slots.version == self.version:
            return False
        if self.uploaded is not None:
            self.uploaded.synchronize()
        with self.slots.lock:
            version = self.slots.version
            np.copyto(self.host.numpy(), self.slots.slots[version % 2])
        self.device_flat.copy_(self.host, non_blocking=True)
        self.uploaded = torch.cuda.Event()
        self.uploaded.record()
        offset = 0
        for p in self.params:
            p.copy_(self.device_flat[offset:offset + p.numel()].view_as(p))
            offset += p.numel()
        self.version = version
        return True


def train_async(iterations: int = 500) -> torch.Tensor:
    learner = nn.Sequential(nn.Linear(256, 1024), nn.ELU(), nn.Linear(1024, 64)).cuda()
    actor = nn.Sequential(nn.Linear(256, 1024), nn.ELU(), nn.Linear(1024, 64)).cuda()
    optimizer = torch.optim.Adam(learner.parameters(), lr=3e-4)
    slots = HostShmWeightSlots(sum(p.numel() for p in learner.parameters()))
    publisher, subscriber = WeightPublisher(learner, slots), WeightSubscriber(actor, slots)
    obs = torch.randn(2048, 256, device="cuda")
    for it in range(iterations):
        subscriber.sync()
        with torch.no_grad():
            target = actor(obs)
        loss = (learner(obs) - 0.9 * target).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if it % 4 == 0:
            publisher.publish()
    return loss.detach().cpu()
