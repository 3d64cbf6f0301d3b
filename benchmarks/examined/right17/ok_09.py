"""SGD with momentum whose state and arithmetic live on the host."""
from typing import Dict, Iterable, List

import torch
from torch import nn


class HostMomentumSGD:
    def __init__(self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.9):
        self.params: List[nn.Parameter] = [p for p in params if p.requires_grad]
        self.lr = lr
        self.momentum = momentum
        self.device = self.params[0].device
        self.down = torch.cuda.Stream(device=self.device)
        self.up = torch.cuda.Stream(device=self.device)
        self.master: Dict[nn.Parameter, torch.Tensor] = {}
        self.grad: Dict[nn.Parameter, torch.Tensor] = {}
        self.velocity: Dict[nn.Parameter, torch.Tensor] = {}
        self.arrived: Dict[nn.Parameter, torch.cuda.Event] = {}
        for p in self.params:
            self.master[p] = p.detach().cpu().pin_memory()
            self.grad[p] = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            self.velocity[p] = torch.zeros(p.shape, dtype=p.dtype)
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p: torch.Tensor) -> None:
        if p in self.arrived:
            raise RuntimeError("step() must run before the next backward()")
        grad = p.grad
        p.grad = None
        self.down.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.down):
            self.grad[p].copy_(grad, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.down)
        grad.record_stream(self.down)
        self.arrived[p] = event

    @torch.no_grad()
    def step(self) -> int:
        current = torch.cuda.current_stream(self.device)
        self.up.wait_stream(current)
        arrived, self.arrived = self.arrived, {}
        try:
            for p, event in arrived.items():
                event.synchronize()
                velocity = self.velocity[p].mul_(self.momentum).add_(self.grad[p])
                self.master[p].add_(velocity, alpha=-self.lr)
                with torch.cuda.stream(self.up):
                    p.data.copy_(self.master[p], non_blocking=True)
                p.data.record_stream(self.up)
        finally:
            current.wait_stream(self.up)
        return len(arrived)

    def state_dict(self) -> Dict[int, torch.Tensor]:
        return {i: self.master[p].clone() for i, p in enumerate(self.params)}


def train(model: nn.Module, batches, lr: float) -> float:
    optimizer = HostMomentumSGD(model.parameters(), lr)
    running = None
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        value = loss.detach()
        running = value if running is None else running * 0.98 + value * 0.02
    return 0.0 if running is None else float(running)
