import torch
from torch import nn
from torch.optim import Optimizer


class AveragingSGD(Optimizer):
    def __init__(self, params, lr=0.01, momentum=0.9, decay=0.99):
        super().__init__(params, dict(lr=lr, momentum=momentum, decay=decay))
        self.side = torch.cuda.Stream()
        for group in self.param_groups:
            for p in group["params"]:
                st = self.state[p]
                st["buf"] = torch.zeros_like(p)
                st["avg"] = p.detach().clone()

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        main = torch.cuda.current_stream()
        main.wait_stream(self.side)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buf = self.state[p]["buf"]
                buf.mul_(group["momentum"]).add_(p.grad)
                p.add_(buf, alpha=-group["lr"])
        self._average(main)
        return loss

    def _average(self, main):
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["avg"].lerp_(p, 1.0 - group["decay"])

    def averages(self):
        torch.cuda.current_stream().wait_stream(self.side)
        return [self.state[p]["avg"] for g in self.param_groups for p in g["params"]]


def evaluate(model, averages, x):
    kept = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p, a in zip(model.parameters(), averages):
            p.copy_(a)
        out = model(x).square().mean()
        for p, k in zip(model.parameters(), kept):
            p.copy_(k)
    return out.item()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 1)).cuda()
    opt = AveragingSGD(model.parameters(), lr=0.02)
    probe = torch.randn(64, 128, device="cuda")
    for n in range(200):
        x = torch.randn(256, 128, device="cuda")
        loss = (model(x) - x.sum(-1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if n % 50 == 49:
            print(n, loss.item(), evaluate(model, opt.averages(), probe))


if __name__ == "__main__":
    main()
