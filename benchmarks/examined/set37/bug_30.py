"""A nested batch of tensors that lives on one device, and a replay store fed from it."""
import numpy as np
import torch
from torch import nn


class TensorBatch:
    def __init__(self, source, batch_size, device=None, non_blocking=None):
        self.batch_size = batch_size
        self.device = torch.device(device) if device is not None else None
        self.non_blocking = non_blocking
        self._data = {}
        for key, value in source.items():
            self.set(key, value)

    def set(self, key, value):
        if isinstance(value, dict):
            value = TensorBatch(value, self.batch_size, self.device, self.non_blocking)
        elif self.device is not None and value.device != self.device:
            value = value.to(self.device, non_blocking=self.non_blocking is not False)
        self._data[key] = value
        return self

    def __getitem__(self, key):
        return self._data[key]

    def items(self, prefix=""):
        for key, value in self._data.items():
            name = f"{prefix}{key}"
            if isinstance(value, TensorBatch):
                yield from value.items(name + "/")
            else:
                yield name, value

    def to(self, device):
        moved = TensorBatch({}, self.batch_size, device)
        for key, value in self._data.items():
            moved._data[key] = (
                value.to(device) if isinstance(value, TensorBatch)
                else value.to(device, non_blocking=True)
            )
        if moved.device.type == "cpu" and torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        return moved


class MemmapReplay:
    def __init__(self, path, capacity):
        self.path, self.capacity = path, capacity
        self.arrays = {}
        self.cursor = 0

    def extend(self, batch):
        n = batch.batch_size
        rows = (self.cursor + np.arange(n)) % self.capacity
        for name, tensor in batch.items():
            array = tensor.numpy()
            if name not in self.arrays:
                file = f"{self.path}_{name.replace('/', '_')}.bin"
                shape = (self.capacity,) + array.shape[1:]
                self.arrays[name] = np.memmap(file, array.dtype, "w+", shape=shape)
            self.arrays[name][rows] = array
        self.cursor = (self.cursor + n) % self.capacity


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, 2048), nn.ELU(), nn.Linear(2048, 2048), nn.ELU())
        self.mean = nn.Linear(2048, act_dim)
        self.value = nn.Linear(2048, 1)

    def forward(self, obs):
        h = self.body(obs)
        mean = self.mean(h)
        action = mean + torch.randn_like(mean) * 0.3
        log_prob = -((action - mean) ** 2).sum(-1)
        return {"action": action, "log_prob": log_prob, "value": self.value(h).squeeze(-1)}


class Collector:
    def __init__(self, num_envs, obs_dim, act_dim, replay, device="cuda"):
        self.device = device
        self.replay = replay
        self.policy = Policy(obs_dim, act_dim).to(device).eval()
        self.mix = torch.randn(act_dim, obs_dim, device=device) * 0.05
        self.obs = torch.randn(num_envs, obs_dim, device=device)

    @torch.no_grad()
    def step(self):
        out = self.policy(self.obs)
        next_obs = torch.tanh(self.obs + out["action"] @ self.mix)
        transition = {
            "obs": self.obs,
            "policy": out,
            "next": {"obs": next_obs, "reward": -(next_obs ** 2).mean(-1)},
        }
        self.replay.extend(TensorBatch(transition, self.obs.shape[0], device="cpu"))
        self.obs = next_obs


if __name__ == "__main__":
    store = MemmapReplay("/tmp/replay", capacity=65536)
    collector = Collector(4096, 128, 32, store)
    for _ in range(16):
        collector.step()
