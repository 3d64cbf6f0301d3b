import contextlib
from typing import Iterable, List

import torch
import torch.nn as nn


class EMAOptimizer(torch.optim.Optimizer):
    """Wraps an optimizer and keeps averaged weights, updated off the main stream."""

    def __init__(self, optimizer: torch.optim.Optimizer, decay: float, every_n: int = 1):
        self.optimizer = optimizer
        self.decay = decay
        self.every_n = every_n
        self.current_step = 0
        self.ema_stream = torch.cuda.Stream()
        self.params: List[torch.Tensor] = [p for g in optimizer.param_groups for p in g["params"]]
        self.ema_params = [p.detach().clone() for p in self.params]
        self.ema_stream.wait_stream(torch.cuda.current_stream())
        self.save_original = False

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    def zero_grad(self, set_to_none: bool = True):
        self.optimizer.zero_grad(set_to_none=set_to_none)

    def step(self, closure=None):
        loss = self.optimizer.step(closure)
        if self._should_update():
            self.update()
        self.current_step += 1
        return loss

    def _should_update(self) -> bool:
        return self.current_step % self.every_n == 0

    @torch.no_grad()
    def update(self):
        self.ema_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.ema_stream):
            torch._foreach_mul_(self.ema_params, self.decay)
            torch._foreach_add_(self.ema_params, self.params, alpha=1 - self.decay)

    def join(self):
        torch.cuda.current_stream().wait_stream(self.ema_stream)

    @contextlib.contextmanager
    def swap_ema_weights(self):
        self.join()
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self):
        for p, e in zip(self.params, self.ema_params):
            tmp = p.detach().clone()
            p.copy_(e)
            e.copy_(tmp)
        self.ema_stream.wait_stream(torch.cuda.current_stream())


class Net(nn.Sequential):
    def __init__(self, width: int, depth: int):
        blocks: Iterable[nn.Module] = (
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()) for _ in range(depth)
        )
        super().__init__(*blocks, nn.Linear(width, 1))


def evaluate(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    net.eval()
    with torch.no_grad():
        value = torch.nn.functional.mse_loss(net(x), y).item()
    net.train()
    return value


def main():
    torch.manual_seed(0)
    net = Net(512, 12).cuda()
    opt = EMAOptimizer(torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True), decay=0.999)
    x_val, y_val = torch.randn(256, 512, device="cuda"), torch.randn(256, 1, device="cuda")
    for step in range(300):
        x = torch.randn(128, 512, device="cuda")
        loss = torch.nn.functional.mse_loss(net(x), x.mean(1, keepdim=True))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 99:
            with opt.swap_ema_weights():
                print(step, evaluate(net, x_val, y_val))


if __name__ == "__main__":
    main()
