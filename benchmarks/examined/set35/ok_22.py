"""Optimizer moments live in host memory; device copies belong to the copy stream."""
from typing import Dict, List, Tuple

import torch
import torch.nn as nn

Key = Tuple[nn.Parameter, str]


class HostMoments:
    KEYS = ("exp_avg", "exp_avg_sq")

    def __init__(self, optimizer: torch.optim.Optimizer):
        self.optimizer = optimizer
        self.stream = torch.cuda.Stream()
        self.host: Dict[Key, torch.Tensor] = {}
        self.resident = True

    def _keys(self) -> List[Key]:
        return [(p, k) for p, s in self.optimizer.state.items() for k in self.KEYS if k in s]

    @torch.no_grad()
    def fetch(self) -> None:
        if self.resident:
            return
        with torch.cuda.stream(self.stream):
            for p, k in self._keys():
                self.optimizer.state[p][k] = self.host[p, k].to("cuda", non_blocking=True)
        self.resident = True

    @torch.no_grad()
    def evict(self) -> None:
        if not self.resident:
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for p, k in self._keys():
                dev = self.optimizer.state[p][k]
                if (p, k) not in self.host:
                    self.host[p, k] = torch.empty(dev.shape, dtype=dev.dtype, pin_memory=True)
                    dev.record_stream(self.stream)
                self.host[p, k].copy_(dev, non_blocking=True)
                self.optimizer.state[p][k] = self.host[p, k]
        self.resident = False

    def attach(self) -> None:
        torch.cuda.current_stream().wait_stream(self.stream)


class Trainer:
    def __init__(self, depth: int = 12, width: int = 2048):
        layers = [nn.Sequential(nn.Linear(width, width), nn.SiLU()) for _ in range(depth)]
        self.model = nn.Sequential(*layers).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, foreach=True)
        self.moments = HostMoments(self.optimizer)
        layers[depth // 2].register_full_backward_hook(lambda m, gi, go: self.moments.fetch())

    def step(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.model(x), target)
        loss.backward()
        self.moments.fetch()
        self.moments.attach()
        self.optimizer.step()
        self.moments.evict()
        return loss.detach()


def main() -> None:
    trainer = Trainer()
    losses = []
    for _ in range(100):
        x = torch.randn(512, 2048, device="cuda")
        losses.append(trainer.step(x, x.roll(1, 0)))
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
