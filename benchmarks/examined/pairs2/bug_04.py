"""Averaged weights for evaluation."""
import torch
import torch.nn as nn


class AveragedParameters:
    def __init__(self, module, optimizer, beta):
        self.beta = beta
        self.live = [p for p in module.parameters() if p.requires_grad]
        self.mean = [p.detach().clone() for p in self.live]
        self.side = torch.cuda.Stream()
        self.side.wait_stream(torch.cuda.current_stream())
        self.finished = torch.cuda.Event()
        self.finished.record(self.side)
        optimizer.register_step_post_hook(self._fence)

    def _fence(self, optimizer, args, kwargs):
        self.finished.wait()

    @torch.no_grad()
    def accumulate(self):
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            torch._foreach_mul_(self.mean, self.beta)
            torch._foreach_add_(self.mean, self.live, alpha=1.0 - self.beta)
            self.finished.record()

    def state_dict(self):
        self.finished.synchronize()
        return [m.cpu() for m in self.mean]


class Regressor(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.body(x).squeeze(-1)


def train(steps=3000):
    model = Regressor().cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    averaged = AveragedParameters(model, opt, beta=0.995)
    for _ in range(steps):
        x = torch.randn(512, 64, device="cuda")
        loss = (model(x) - x.sum(-1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        averaged.accumulate()
    torch.save(averaged.state_dict(), "averaged.pt")


if __name__ == "__main__":
    train()
