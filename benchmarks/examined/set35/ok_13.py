"""Actor-critic update: output gradients from a second stream, fed into backward."""
from typing import Iterator, Tuple

import torch
import torch.nn as nn


class ActorCritic(nn.Module):
    def __init__(self, obs: int, hidden: int, actions: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(),
                                  nn.Linear(hidden, hidden), nn.Tanh())
        self.policy = nn.Linear(hidden, actions)
        self.value = nn.Linear(hidden, 1)

    def forward(self, obs: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        h = self.body(obs)
        return self.policy(h), self.value(h).squeeze(-1)


class TargetEngine:
    """Computes both output gradients off the training stream."""

    def __init__(self, gamma: float, device: torch.device):
        self.gamma = gamma
        self.stream = torch.cuda.Stream(device)

    def _returns(self, rewards: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(rewards)
        running = torch.zeros_like(rewards[0])
        for t in range(rewards.shape[0] - 1, -1, -1):
            running = rewards[t] + self.gamma * running
            out[t] = running
        return out

    @torch.no_grad()
    def start(self, logits, values, actions, rewards):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            returns = self._returns(rewards)
            advantage = returns - values
            onehot = torch.zeros_like(logits).scatter_(2, actions.unsqueeze(2), 1.0)
            scale = 1.0 / rewards.numel()
            d_logits = (torch.softmax(logits, dim=-1) - onehot) * advantage.unsqueeze(2) * scale
            d_values = (values - returns) * scale
        for tensor in (logits, values, actions, rewards):
            tensor.record_stream(self.stream)
        return d_logits, d_values

    def finish(self, *grads: torch.Tensor) -> None:
        current = torch.cuda.current_stream()
        current.wait_stream(self.stream)
        for grad in grads:
            grad.record_stream(current)


class Trainer:
    def __init__(self, net: ActorCritic, engine: TargetEngine, lr: float):
        self.net = net
        self.engine = engine
        self.optimizer = torch.optim.Adam(net.parameters(), lr=lr)

    def step(self, obs, actions, rewards) -> None:
        logits, values = self.net(obs)
        d_logits, d_values = self.engine.start(logits.detach(), values.detach(), actions, rewards)
        self.optimizer.zero_grad(set_to_none=True)
        self.engine.finish(d_logits, d_values)
        torch.autograd.backward([logits, values], [d_logits, d_values])
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()


def rollouts(count: int, steps: int, envs: int, obs: int, actions: int) -> Iterator[tuple]:
    for _ in range(count):
        yield (torch.randn(steps, envs, obs, device="cuda"),
               torch.randint(actions, (steps, envs), device="cuda"),
               torch.randn(steps, envs, device="cuda"))


def main() -> None:
    device = torch.device("cuda")
    net = ActorCritic(obs=128, hidden=512, actions=18).to(device)
    trainer = Trainer(net, TargetEngine(0.99, device), lr=3e-4)
    for batch in rollouts(20, steps=128, envs=256, obs=128, actions=18):
        trainer.step(*batch)
    print(sum(p.square().sum() for p in net.parameters()).item())


if __name__ == "__main__":
    main()
