from __future__ import annotations

from collections.abc import Mapping
from typing import Iterator

import numpy as np
import torch


class TensorDict(Mapping):
    def __init__(self, source=None, batch_size=None, device=None, non_blocking: bool = False):
        self._tensordict: dict[str, torch.Tensor] = {}
        self.batch_size = torch.Size([batch_size] if isinstance(batch_size, int) else batch_size or [])
        self._device = torch.device(device) if device is not None else None
        if source is not None:
            for key, value in source.items():
                self.set(key, value, non_blocking=True)

    def _validate_value(self, value: torch.Tensor, non_blocking: bool) -> torch.Tensor:
        if value.shape[: len(self.batch_size)] != self.batch_size:
            raise RuntimeError(f"batch dimension mismatch, got {value.shape}")
        if self._device is not None and value.device != self._device:
            value = value.to(self._device, non_blocking=non_blocking)
        return value

    def set(self, key: str, value: torch.Tensor, non_blocking: bool = False) -> TensorDict:
        self._tensordict[key] = self._validate_value(value, non_blocking)
        return self

    def __getitem__(self, key: str) -> torch.Tensor:
        return self._tensordict[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensordict)

    def __len__(self) -> int:
        return len(self._tensordict)

    def numpy(self) -> dict[str, np.ndarray]:
        return {key: value.numpy() for key, value in self.items()}


class RolloutCollector:
    def __init__(self, env, policy: torch.nn.Module, storage: list):
        self.env = env
        self.policy = policy
        self.storage = storage

    @torch.no_grad()
    def collect(self, steps: int) -> None:
        obs = self.env.reset()
        for _ in range(steps):
            action = self.policy(obs)
            next_obs, reward, done = self.env.step(action)
            td = TensorDict(
                {"obs": obs, "action": action, "reward": reward, "done": done},
                batch_size=obs.shape[0],
                device="cpu",
            )
            self.storage.append({k: v.copy() for k, v in td.numpy().items()})
            obs = next_obs
