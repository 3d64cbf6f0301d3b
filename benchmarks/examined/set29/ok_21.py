"""Actor threads act on a shared policy copy that the learner refreshes between steps."""
from __future__ import annotations

import threading

import torch
from torch import nn


class SharedPolicy:
    """Weights of the acting model; refresh and forward are ordered on the device."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.lock = threading.Lock()
        self.refreshed = torch.cuda.Event()
        self.readers: dict[int, torch.cuda.Event] = {}
        self.refreshed.record()

    def act(self, obs: torch.Tensor) -> torch.Tensor:
        stream = torch.cuda.current_stream()
        with self.lock:
            stream.wait_event(self.refreshed)
            logits = self.model(obs)
            event = self.readers.setdefault(stream.cuda_stream, torch.cuda.Event())
            event.record(stream)
        return logits.argmax(dim=-1)

    @torch.no_grad()
    def refresh(self, source: nn.Module) -> None:
        stream = torch.cuda.current_stream()
        with self.lock:
            for event in self.readers.values():
                stream.wait_event(event)
            for dst, src in zip(self.model.parameters(), source.parameters()):
                dst.copy_(src)
            self.refreshed.record(stream)


class Actor(threading.Thread):
    def __init__(self, policy: SharedPolicy, envs: int, obs_dim: int, steps: int) -> None:
        super().__init__()
        self.policy = policy
        self.envs, self.obs_dim, self.steps = envs, obs_dim, steps
        self.stream = torch.cuda.Stream()
        self.obs_host = torch.empty(envs, obs_dim, pin_memory=True)
        self.actions_host = torch.empty(envs, dtype=torch.int64, pin_memory=True)
        self.ready = torch.cuda.Event()
        self.counts = torch.zeros(8, dtype=torch.int64)

    @torch.inference_mode()
    def run(self) -> None:
        state = torch.zeros(self.envs, self.obs_dim)
        for _ in range(self.steps):
            self.obs_host.copy_(state)
            with torch.cuda.stream(self.stream):
                obs = self.obs_host.to("cuda", non_blocking=True)
                actions = self.policy.act(obs)
                self.actions_host.copy_(actions, non_blocking=True)
                self.ready.record(self.stream)
            self.ready.synchronize()
            self.counts += torch.bincount(self.actions_host, minlength=8)
            state = state.roll(1, dims=1) + self.actions_host.unsqueeze(1).float() * 0.01


def learn(learner: nn.Module, policy: SharedPolicy, updates: int, obs_dim: int) -> float:
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-3)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(updates):
            obs = torch.randn(256, obs_dim, device="cuda")
            target = obs[:, :8].argmax(dim=-1)
            loss = nn.functional.cross_entropy(learner(obs), target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            policy.refresh(learner)
        return loss.item()


def make_net(obs_dim: int) -> nn.Module:
    return nn.Sequential(nn.Linear(obs_dim, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))


def main() -> None:
    obs_dim = 128
    learner = make_net(obs_dim).cuda()
    acting = make_net(obs_dim).cuda().requires_grad_(False)
    policy = SharedPolicy(acting)
    actors = [Actor(policy, 64, obs_dim, 500) for _ in range(3)]
    for actor in actors:
        actor.start()
    final = learn(learner, policy, 500, obs_dim)
    for actor in actors:
        actor.join()
    print(final, sum(a.counts for a in actors).tolist())


if __name__ == "__main__":
    main()
