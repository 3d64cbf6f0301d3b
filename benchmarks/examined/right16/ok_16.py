"""Adam with host-resident master weights; gradients come down, weights go up."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass
class _State:
    param: torch.nn.Parameter
    master: torch.Tensor
    grad: torch.Tensor
    exp_avg: torch.Tensor
    exp_avg_sq: torch.Tensor
    arrived: torch.cuda.Event
    steps: int = 0


class HostAdam:
    def __init__(self, params, lr: float = 1e-3, betas=(0.9, 0.999), eps: float = 1e-8):
        self.lr, self.betas, self.eps = lr, betas, eps
        self._states: list[_State] = []
        for param in params:
            if param.dtype != torch.float32:
                raise TypeError("float32 parameters only")
            master = torch.empty(param.shape, pin_memory=True)
            master.copy_(param.detach())
            self._states.append(
                _State(
                    param=param,
                    master=master,
                    grad=torch.empty(param.shape, pin_memory=True),
                    exp_avg=torch.zeros(param.shape),
                    exp_avg_sq=torch.zeros(param.shape),
                    arrived=torch.cuda.Event(),
                )
            )
        self._device = self._states[0].param.device
        self._io = torch.cuda.Stream(device=self._device)

    def _update(self, state: _State) -> None:
        beta1, beta2 = self.betas
        state.steps += 1
        state.exp_avg.lerp_(state.grad, 1 - beta1)
        state.exp_avg_sq.mul_(beta2).addcmul_(state.grad, state.grad, value=1 - beta2)
        correction1 = 1 - beta1**state.steps
        correction2 = math.sqrt(1 - beta2**state.steps)
        denom = state.exp_avg_sq.sqrt().div_(correction2).add_(self.eps)
        state.master.addcdiv_(state.exp_avg, denom, value=-self.lr / correction1)

    @torch.no_grad()
    def step(self) -> None:
        compute = torch.cuda.current_stream(self._device)
        active = [state for state in self._states if state.param.grad is not None]
        self._io.wait_stream(compute)
        try:
            with torch.cuda.stream(self._io):
                for state in active:
                    state.grad.copy_(state.param.grad, non_blocking=True)
                    state.arrived.record()
                for state in active:
                    state.arrived.synchronize()
                    self._update(state)
                    state.param.copy_(state.master, non_blocking=True)
        finally:
            compute.wait_stream(self._io)

    def zero_grad(self) -> None:
        for state in self._states:
            state.param.grad = None


def main() -> None:
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)
    ).to(device)
    optim = HostAdam(model.parameters())
    frozen_rounds = {3, 7}
    for step in range(60):
        model[2].requires_grad_(step not in frozen_rounds)
        x = torch.randn(128, 256, device=device)
        loss = (model(x) - x.sum(dim=1, keepdim=True).sin()).square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        if step % 20 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
