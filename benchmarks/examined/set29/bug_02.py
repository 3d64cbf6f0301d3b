"""Offline evaluation of a visuomotor policy with per-camera upload buffers."""
from __future__ import annotations

from collections import deque

import numpy as np
import torch
from torch import nn

_pinned_buffers: dict[tuple, torch.Tensor] = {}


def prepare_observation_for_inference(
    observation: dict[str, np.ndarray], device: torch.device
) -> dict[str, torch.Tensor]:
    """Convert a raw robot observation into batched tensors on `device`."""
    out = {}
    for name, value in observation.items():
        if name.startswith("observation.images"):
            value = np.ascontiguousarray(value)
            h, w, c = value.shape
            key = (name, h, w, c)
            if key not in _pinned_buffers:
                _pinned_buffers[key] = torch.empty(1, c, h, w, dtype=torch.float32).pin_memory()
            frame = torch.from_numpy(value).permute(2, 0, 1).unsqueeze(0).to(dtype=torch.float32)
            _pinned_buffers[key].copy_(frame)
            t = _pinned_buffers[key].to(device, non_blocking=True)
            out[name] = t / 255.0
        else:
            out[name] = torch.from_numpy(value).float().unsqueeze(0).to(device)
    return out


class ImageEncoder(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(128, 256, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, dim),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class ChunkedPolicy(nn.Module):
    def __init__(self, cameras: list[str], dim: int = 512, n_obs_steps: int = 4,
                 n_action_steps: int = 8, action_dim: int = 14) -> None:
        super().__init__()
        self.cameras = cameras
        self.n_action_steps = n_action_steps
        self.action_dim = action_dim
        self.encoder = ImageEncoder(dim)
        self.head = nn.Linear(dim * len(cameras) * n_obs_steps, n_action_steps * action_dim)
        self.features: deque[torch.Tensor] = deque(maxlen=n_obs_steps)
        self.actions: deque[np.ndarray] = deque()

    def reset(self) -> None:
        self.features.clear()
        self.actions.clear()

    @torch.inference_mode()
    def observe(self, batch: dict[str, torch.Tensor]) -> None:
        feats = [self.encoder(batch[cam]) for cam in self.cameras]
        self.features.append(torch.cat(feats, dim=-1))
        while len(self.features) < self.features.maxlen:
            self.features.append(self.features[-1])

    @torch.inference_mode()
    def select_action(self) -> np.ndarray:
        if not self.actions:
            chunk = self.head(torch.cat(list(self.features), dim=-1))
            chunk = chunk.view(self.n_action_steps, self.action_dim).cpu().numpy()
            self.actions.extend(chunk)
        return self.actions.popleft()


def evaluate(policy: ChunkedPolicy, episode, device: torch.device) -> float:
    policy.reset()
    error = 0.0
    for step in episode:
        images = {k: v for k, v in step.items() if k.startswith("observation.images")}
        policy.observe(prepare_observation_for_inference(images, device))
        error += float(np.abs(policy.select_action() - step["action"]).mean())
    return error / len(episode)


if __name__ == "__main__":
    cams = ["observation.images.top", "observation.images.wrist"]
    dev = torch.device("cuda")
    demo = [
        {**{c: np.random.randint(0, 255, (480, 640, 3), dtype=np.uint8) for c in cams},
         "action": np.zeros(14, dtype=np.float32)}
        for _ in range(64)
    ]
    print(evaluate(ChunkedPolicy(cams).to(dev).eval(), demo, dev))
