"""Rollout uploader: environment observations go to the learner in pinned slots."""
import numpy as np
import torch
import torch.nn as nn


class ObservationUplink:
    """Cycles through pinned slots and drains the stream now and then."""

    def __init__(self, envs, width, slots=4, drain_every=8):
        self.slots = [torch.empty(envs, width, pin_memory=True) for _ in range(slots)]
        self.drain_every = drain_every
        self.stream = torch.cuda.Stream()
        self.step = 0

    def upload(self, observations):
        if self.step and self.step % self.drain_every == 0:
            self.stream.synchronize()
        slot = self.slots[self.step % len(self.slots)]
        self.step += 1
        np.copyto(slot.numpy(), observations)
        with torch.cuda.stream(self.stream):
            on_device = slot.cuda(non_blocking=True)
        learner = torch.cuda.current_stream()
        learner.wait_stream(self.stream)
        on_device.record_stream(learner)
        return on_device


class VectorEnv:
    def __init__(self, envs, width, seed=0):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.standard_normal((envs, width)).astype(np.float32)

    def advance(self):
        self.state += 0.01 * self.rng.standard_normal(self.state.shape, dtype=np.float32)
        return self.state


@torch.no_grad()
def collect(steps=512, envs=4096, width=512):
    env = VectorEnv(envs, width)
    uplink = ObservationUplink(envs, width)
    critic = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    values = torch.empty(steps, envs, device="cuda")
    for step in range(steps):
        observation = uplink.upload(env.advance())
        values[step] = critic(observation).squeeze(-1)
    return values.mean(dim=1).cpu().numpy()


if __name__ == "__main__":
    print(collect()[-5:])
