"""Colocated actor and rollout: weights are handed over after the actor moved to CPU."""
from typing import Dict, Iterator, List, Tuple

import torch
import torch.nn as nn

NamedTensor = Tuple[str, torch.Tensor]


class ActorEngine:
    def __init__(self, module: nn.Module, lr: float = 1e-4):
        self.module = module.cuda()
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=lr)
        self._pages: Dict[str, torch.Tensor] = {
            name: torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            for name, p in module.named_parameters()
        }

    def train_batch(self, x: torch.Tensor) -> torch.Tensor:
        loss = (self.module(x) - x).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def to(self, device: str):
        if device == "cpu":
            for name, p in self.module.named_parameters():
                page = self._pages[name]
                page.copy_(p.data, non_blocking=True)
                p.data = page
        else:
            for name, p in self.module.named_parameters():
                p.data = p.data.to(device, non_blocking=True)

    def get_per_tensor_param(self, dtype=torch.bfloat16) -> Iterator[NamedTensor]:
        for name, p in self.module.named_parameters():
            yield name, p.data.to(dtype)


class RolloutEngine:
    def __init__(self, layers: int, dim: int):
        self.state: Dict[str, torch.Tensor] = {}
        self.layers, self.dim = layers, dim

    def update_weights(self, params: Iterator[NamedTensor], bucket_bytes: int = 64 << 20):
        bucket: List[NamedTensor] = []
        used = 0
        for name, tensor in params:
            bucket.append((name, tensor))
            used += tensor.numel() * tensor.element_size()
            if used >= bucket_bytes:
                self._load(bucket)
                bucket, used = [], 0
        if bucket:
            self._load(bucket)

    def _load(self, bucket: List[NamedTensor]):
        for name, tensor in bucket:
            self.state[name] = tensor.cuda()

    @torch.no_grad()
    def generate(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(torch.bfloat16)
        for i in range(self.layers):
            x = torch.tanh(nn.functional.linear(x, self.state[f"{i}.weight"]))
        return x

    def sleep(self):
        self.state.clear()


class Worker:
    def __init__(self, layers: int = 12, dim: int = 4096):
        stack = [nn.Linear(dim, dim, bias=False) for _ in range(layers)]
        self.actor = ActorEngine(nn.Sequential(*stack))
        self.rollout = RolloutEngine(layers, dim)
        self.dim = dim

    def step(self) -> torch.Tensor:
        prompt = torch.randn(8, self.dim, device="cuda")
        params = self.actor.get_per_tensor_param()
        self.actor.to("cpu")
        self.rollout.update_weights(params)
        samples = self.rollout.generate(prompt).float()
        self.rollout.sleep()
        self.actor.to("cuda")
        return self.actor.train_batch(samples)


def main(steps: int = 10):
    worker = Worker()
    losses = [worker.step() for _ in range(steps)]
    print(torch.stack(losses).tolist())


if __name__ == "__main__":
    main()
