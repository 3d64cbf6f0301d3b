"""Replay buffer in ordinary (pageable) host memory, sampled into device batches."""
from typing import Dict, Iterator, Tuple

import numpy as np
import torch


class HostReplayBuffer:
    def __init__(self, capacity: int, obs_dim: int, action_dim: int, seed: int = 0):
        self.obs = torch.zeros(capacity, obs_dim)
        self.action = torch.zeros(capacity, action_dim)
        self.reward = torch.zeros(capacity)
        self.next_obs = torch.zeros(capacity, obs_dim)
        self.capacity, self.size, self.head = capacity, 0, 0
        self.rng = np.random.default_rng(seed)

    def add(self, obs, action, reward: float, next_obs) -> None:
        i = self.head
        self.obs[i] = torch.as_tensor(obs)
        self.action[i] = torch.as_tensor(action)
        self.reward[i] = reward
        self.next_obs[i] = torch.as_tensor(next_obs)
        self.head = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)


class Sampler:
    """Gathers into host scratch that is used again for each batch.

    The scratch is pageable: the driver has taken its bytes when the call returns.
    """

    def __init__(self, buffer: HostReplayBuffer, batch_size: int, device: torch.device):
        self.buffer = buffer
        self.batch_size = batch_size
        self.device = device
        self.scratch: Dict[str, torch.Tensor] = {
            "obs": torch.empty(batch_size, buffer.obs.shape[1]),
            "action": torch.empty(batch_size, buffer.action.shape[1]),
            "reward": torch.empty(batch_size),
            "next_obs": torch.empty(batch_size, buffer.next_obs.shape[1]),
        }

    def sample(self) -> Dict[str, torch.Tensor]:
        index = torch.from_numpy(self.buffer.rng.integers(0, self.buffer.size, self.batch_size))
        batch = {}
        for name, scratch in self.scratch.items():
            torch.index_select(getattr(self.buffer, name), 0, index, out=scratch)
            batch[name] = scratch.to(self.device, non_blocking=True)
        return batch

    def __iter__(self) -> Iterator[Dict[str, torch.Tensor]]:
        while True:
            yield self.sample()


def td_update(q: torch.nn.Module, target_q: torch.nn.Module, policy: torch.nn.Module, sampler: Sampler,
              optimizer: torch.optim.Optimizer, gamma: float, updates: int) -> Tuple[float, int]:
    total = torch.zeros((), device=sampler.device)
    for _, batch in zip(range(updates), sampler):
        with torch.no_grad():
            value = target_q(torch.cat([batch["next_obs"], policy(batch["next_obs"])], -1)).squeeze(-1)
            goal = batch["reward"] + gamma * value
        loss = torch.nn.functional.mse_loss(q(torch.cat([batch["obs"], batch["action"]], -1)).squeeze(-1), goal)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
    return total.item() / updates, updates
