"""Actor and critic updates of one batch, computed on two streams."""
from typing import Dict, Iterator, Tuple

import torch
import torch.nn as nn


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
        nn.Linear(hidden, outputs))


class Learner:
    """A network with its optimizer; accumulate() leaves gradients, apply() uses them."""

    def __init__(self, net: nn.Module, lr: float, clip: float):
        self.net = net
        self.clip = clip
        self.optimizer = torch.optim.Adam(net.parameters(), lr=lr)

    def accumulate(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()

    def apply(self) -> torch.Tensor:
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.optimizer.step()
        return norm


class ActorCriticTrainer:
    def __init__(self, obs: int, actions: int, device: torch.device):
        self.actor = Learner(mlp(obs, 1024, actions).to(device), 3e-4, 0.5)
        self.critic = Learner(mlp(obs, 2048, 1).to(device), 1e-3, 1.0)
        self.critic_stream = torch.cuda.Stream(device)

    def _critic_loss(self, obs: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        return nn.functional.smooth_l1_loss(self.critic.net(obs).squeeze(-1), returns)

    def _actor_loss(self, obs: torch.Tensor, actions: torch.Tensor,
                    advantage: torch.Tensor) -> torch.Tensor:
        logp = torch.log_softmax(self.actor.net(obs), dim=-1)
        chosen = logp.gather(1, actions.unsqueeze(1)).squeeze(1)
        entropy = -(logp.exp() * logp).sum(dim=-1)
        return -(chosen * advantage + 0.01 * entropy).mean()

    def step(self, obs: torch.Tensor, actions: torch.Tensor, returns: torch.Tensor,
             advantage: torch.Tensor) -> Dict[str, torch.Tensor]:
        self.critic_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.critic_stream):
            self.critic.accumulate(self._critic_loss(obs, returns))
        for tensor in (obs, returns):
            tensor.record_stream(self.critic_stream)
        self.actor.accumulate(self._actor_loss(obs, actions, advantage))
        return {"actor": self.actor.apply(), "critic": self.critic.apply()}


def batches(count: int, rows: int, obs: int, actions: int) -> Iterator[Tuple[torch.Tensor, ...]]:
    for _ in range(count):
        returns = torch.randn(rows, device="cuda")
        yield (torch.randn(rows, obs, device="cuda"),
               torch.randint(actions, (rows,), device="cuda"),
               returns, returns - returns.mean())


def main() -> None:
    device = torch.device("cuda")
    trainer = ActorCriticTrainer(obs=256, actions=18, device=device)
    norms = {}
    for batch in batches(50, rows=32768, obs=256, actions=18):
        norms = trainer.step(*batch)
    print({name: value.item() for name, value in norms.items()})


if __name__ == "__main__":
    main()
