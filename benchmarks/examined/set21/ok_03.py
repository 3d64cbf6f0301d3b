import threading
from typing import Dict, List, Tuple

import numpy as np
import torch
import torch.nn as nn


class SharedWeights:
    """Flat snapshot of the learner's weights with a version counter."""

    def __init__(self, numel: int):
        self._flat = np.zeros(numel, dtype=np.float32)
        self._lock = threading.Lock()
        self.version = 0

    def publish(self, flat: np.ndarray) -> None:
        with self._lock:
            np.copyto(self._flat, flat)
            self.version += 1

    def read_into(self, out: np.ndarray) -> int:
        with self._lock:
            np.copyto(out, self._flat)
            return self.version


class DeviceWeightApplier:
    def __init__(self, actor: nn.Module, device: torch.device):
        self.device = device
        self.layout: List[Tuple[torch.Tensor, int, int]] = []
        offset = 0
        for tensor in list(actor.parameters()) + list(actor.buffers()):
            self.layout.append((tensor, offset, tensor.numel()))
            offset += tensor.numel()
        self.numel = offset
        self.host = torch.empty(offset, dtype=torch.float32, pin_memory=True)
        self.host_np = self.host.numpy()
        self.staging = torch.empty(offset, dtype=torch.float32, device=device)
        self.h2d_done = torch.cuda.Event()
        self.pending = False

    @torch.no_grad()
    def apply(self, shared: SharedWeights) -> int:
        if self.pending:
            self.h2d_done.synchronize()
        version = shared.read_into(self.host_np)
        self.staging.copy_(self.host, non_blocking=True)
        self.h2d_done.record()
        self.pending = True
        for tensor, offset, numel in self.layout:
            tensor.copy_(self.staging[offset:offset + numel].view_as(tensor))
        return version


class Collector:
    def __init__(self, actor: nn.Module, shared: SharedWeights, num_envs: int, obs_dim: int):
        self.device = torch.device("cuda")
        self.actor = actor.to(self.device)
        self.shared = shared
        self.applier = DeviceWeightApplier(self.actor, self.device)
        self.obs = torch.zeros(num_envs, obs_dim, device=self.device)
        self.local_version = -1

    @torch.no_grad()
    def rollout(self, horizon: int) -> torch.Tensor:
        if self.shared.version != self.local_version:
            self.local_version = self.applier.apply(self.shared)
        returns = torch.zeros(self.obs.shape[0], device=self.device)
        for _ in range(horizon):
            action = self.actor(self.obs)
            self.obs = self.obs * 0.99 + action.mean(dim=-1, keepdim=True) * 0.01
            returns += action.square().sum(dim=-1)
        return returns


def collect(iterations: int = 200) -> Dict[int, torch.Tensor]:
    actor = nn.Sequential(nn.Linear(96, 512), nn.ELU(), nn.Linear(512, 29))
    shared = SharedWeights(sum(p.numel() for p in actor.parameters()))
    collector = Collector(actor, shared, 2048, 96)
    history = {}
    for i in range(iterations):
        shared.publish(np.random.randn(collector.applier.numel).astype(np.float32) * 0.02)
        history[i] = collector.rollout(24)
    torch.cuda.synchronize()
    return history
