from __future__ import annotations

import torch
from torch import nn


class CpuAdam:
    """Keeps Adam state on the host; gradients and parameters travel on one stream."""

    def __init__(self, model: nn.Module, lr: float = 1e-3) -> None:
        self.lr = lr
        self.stream = torch.cuda.Stream()
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.master = {p: p.detach().cpu().pin_memory() for p in self.params}
        self.grad = {p: torch.empty_like(m).pin_memory() for p, m in self.master.items()}
        self.opt = torch.optim.Adam([self._leaf(p) for p in self.params], lr=lr)
        self.arrived: dict[nn.Parameter, torch.cuda.Event] = {}
        for p in self.params:
            p.register_post_accumulate_grad_hook(self._offload_grad)

    def _leaf(self, p: nn.Parameter) -> torch.Tensor:
        leaf = self.master[p]
        leaf.grad = self.grad[p]
        return leaf

    @torch.no_grad()
    def _offload_grad(self, p: nn.Parameter) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.grad[p].copy_(p.grad, non_blocking=True)
            p.grad.record_stream(self.stream)
            event = self.arrived.setdefault(p, torch.cuda.Event())
            event.record(self.stream)
        p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for p in self.params:
            self.arrived[p].synchronize()
        self.opt.step()
        with torch.cuda.stream(self.stream):
            self.stream.wait_stream(torch.cuda.default_stream())
            for p in self.params:
                p.copy_(self.master[p], non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
    opt = CpuAdam(model)
    weight = torch.randn(256, 1, device="cuda")
    for step in range(200):
        x = torch.randn(512, 256, device="cuda")
        loss = nn.functional.mse_loss(model(x), x @ weight)
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
