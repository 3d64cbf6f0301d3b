"""Optimizer that runs beside data loading and joins at the next forward."""
import torch
from torch import nn


class SideStep:
    def __init__(self, module, optimizer):
        self.module = module
        self.optimizer = optimizer
        self.params = [p for g in optimizer.param_groups for p in g["params"]]
        self.device = self.params[0].device
        self.stream = torch.cuda.Stream(self.device)
        for p in self.params:
            p.data.record_stream(self.stream)
        self._hooks = [m.register_forward_pre_hook(self._join)
                       for m in module.modules()]

    def _join(self, *_):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def step(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.optimizer.step()
        for p in self.params:
            if p.grad is not None:
                p.grad.record_stream(self.stream)
                p.grad = None

    def state_dict(self):
        self._join()
        return {"model": self.module.state_dict(),
                "optimizer": self.optimizer.state_dict()}

    def close(self):
        self._join()
        while self._hooks:
            self._hooks.pop().remove()


def synthetic(batch, width, device):
    x = torch.randn(batch, width, device=device)
    return x, x.flip(1).cumsum(1)


def train(steps=20, width=256):
    device = torch.device("cuda", torch.cuda.current_device())
    model = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
    model = model.to(device)
    side = SideStep(model, torch.optim.AdamW(model.parameters(), lr=3e-4))
    try:
        for _ in range(steps):
            x, y = synthetic(128, width, device)
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            side.step()
        torch.save(side.state_dict(), "/tmp/side_step.pt")
    finally:
        side.close()
    return loss.item()


if __name__ == "__main__":
    print(train())
