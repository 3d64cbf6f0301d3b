"""Adam on the host: gradients stream out during backward, weights stream back in."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class HostState:
    master: torch.Tensor
    grad: torch.Tensor
    m: torch.Tensor
    v: torch.Tensor
    arrived: torch.cuda.Event
    uploaded: torch.cuda.Event
    fresh: bool = False


class HostAdam:
    def __init__(self, module: nn.Module, lr: float = 1e-3, betas=(0.9, 0.999), eps: float = 1e-8):
        self.lr, self.betas, self.eps = lr, betas, eps
        self.steps = 0
        self.params = [p for p in module.parameters() if p.requires_grad]
        self.device = self.params[0].device
        self.stream = torch.cuda.Stream(self.device)
        self.state: dict[nn.Parameter, HostState] = {}
        for p in self.params:
            master = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            master.copy_(p.detach())
            self.state[p] = HostState(
                master=master,
                grad=torch.zeros(p.shape, dtype=p.dtype, pin_memory=True),
                m=torch.zeros(p.shape, dtype=p.dtype),
                v=torch.zeros(p.shape, dtype=p.dtype),
                arrived=torch.cuda.Event(),
                uploaded=torch.cuda.Event(),
            )
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p: torch.Tensor) -> None:
        state = self.state[p]
        if state.fresh:
            raise RuntimeError("step() must run between two backward passes")
        grad = p.grad
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            state.grad.copy_(grad, non_blocking=True)
            state.arrived.record()
        grad.record_stream(self.stream)
        p.grad = None
        state.fresh = True

    def _update(self, state: HostState) -> None:
        b1, b2 = self.betas
        state.m.lerp_(state.grad, 1 - b1)
        state.v.mul_(b2).addcmul_(state.grad, state.grad, value=1 - b2)
        m_hat = state.m / (1 - b1 ** self.steps)
        v_hat = state.v / (1 - b2 ** self.steps)
        state.master.addcdiv_(m_hat, v_hat.sqrt_().add_(self.eps), value=-self.lr)

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        try:
            for p in self.params:
                state = self.state[p]
                if not state.fresh:
                    continue
                state.arrived.synchronize()
                state.uploaded.synchronize()
                self._update(state)
                with torch.cuda.stream(self.stream):
                    p.data.copy_(state.master, non_blocking=True)
                    state.uploaded.record()
                state.fresh = False
        finally:
            current.wait_stream(self.stream)


def main() -> None:
    device = torch.device("cuda:0")
    net = nn.Sequential(nn.Linear(256, 2048), nn.GELU(), nn.Linear(2048, 256)).to(device)
    optimizer = HostAdam(net)
    for _ in range(30):
        x = torch.randn(128, 256, device=device)
        loss = (net(x) - x.roll(1, -1)).square().mean()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
