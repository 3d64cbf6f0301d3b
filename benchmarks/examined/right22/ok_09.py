import torch
from torch import nn


class WhitenedSGD(torch.optim.Optimizer):
    """Left preconditioner for matrices, its inverse root is renewed in a stream aside."""

    def __init__(self, params, lr=1e-2, every=8, beta=0.95, eps=1e-4):
        super().__init__(params, dict(lr=lr, every=every, beta=beta, eps=eps))
        self.count = 0
        self.aside = torch.cuda.Stream()
        self.renewed = None

    def _init(self, p):
        st = self.state[p]
        n = p.shape[0]
        st["gram"] = torch.eye(n, device=p.device)
        st["root"] = torch.eye(n, device=p.device)

    def _renew(self, todo):
        self.aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aside):
            for p, eps in todo:
                st = self.state[p]
                vals, vecs = torch.linalg.eigh(st["gram"])
                scaled = vecs * (vals.clamp(min=0) + eps).rsqrt()
                torch.mm(scaled, vecs.t(), out=st["root"])
            self.renewed = self.aside.record_event()

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        if self.renewed is not None:
            self.renewed.wait()
            self.renewed = None
        self.count += 1
        todo = []
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.dim() != 2:
                    p.add_(p.grad, alpha=-group["lr"])
                    continue
                if not self.state[p]:
                    self._init(p)
                st = self.state[p]
                st["gram"].mul_(group["beta"]).addmm_(p.grad, p.grad.t(), alpha=1 - group["beta"])
                p.addmm_(st["root"], p.grad, alpha=-group["lr"])
                if self.count % group["every"] == 0:
                    todo.append((p, group["eps"]))
        if todo:
            self._renew(todo)
        return loss


def main():
    model = nn.Sequential(nn.Linear(96, 192), nn.ReLU(), nn.Linear(192, 96)).cuda()
    opt = WhitenedSGD(model.parameters(), lr=5e-3)
    for n in range(64):
        x = torch.randn(128, 96, device="cuda")
        loss = (model(x) - x.cos()).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if n % 16 == 0:
            print(n, float(loss))
    torch.cuda.current_stream().wait_stream(opt.aside)
    print([float(st["root"].norm()) for st in opt.state.values() if st])


if __name__ == "__main__":
    main()
