"""Offloaded RMSProp: gradients go to the host, the update is done by NumPy."""
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn


@dataclass
class HostState:
    grad: torch.Tensor
    weight: torch.Tensor
    square: np.ndarray = field(init=False)

    def __post_init__(self):
        self.square = np.zeros(tuple(self.grad.shape), dtype=np.float32)

    @classmethod
    def of(cls, param):
        return cls(torch.empty(param.shape, pin_memory=True), param.detach().cpu().pin_memory())

    def update(self, lr, rho, eps=1e-8):
        g = self.grad.numpy()
        self.square *= rho
        self.square += (1.0 - rho) * g * g
        self.weight.numpy()[...] -= lr * g / (np.sqrt(self.square) + eps)


class OffloadedRMSProp:
    def __init__(self, model, lr=1e-3, rho=0.99):
        self.lr, self.rho = lr, rho
        self.states = {p: HostState.of(p) for p in model.parameters()}
        self.offload = torch.cuda.Stream()

    def _offload_gradients(self):
        compute = torch.cuda.current_stream()
        self.offload.wait_stream(compute)
        with torch.cuda.stream(self.offload):
            for param, state in self.states.items():
                state.grad.copy_(param.grad, non_blocking=True)
        compute.synchronize()

    def step(self):
        self._offload_gradients()
        for state in self.states.values():
            state.update(self.lr, self.rho)
        with torch.no_grad():
            for param, state in self.states.items():
                param.copy_(state.weight)
        self.offload.synchronize()
        for param in self.states:
            param.grad = None


def train(steps=300):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(512, 4096), nn.GELU(), nn.Linear(4096, 512)).cuda()
    optimizer = OffloadedRMSProp(model)
    for step in range(steps):
        x = torch.randn(256, 512, device="cuda")
        loss = (model(x) - x.flip(1)).pow(2).mean()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    print(train())
