"""Preconditioned SGD whose factor inverses are refreshed beside the training stream."""
import torch
import torch.nn as nn


class FactorPair:
    def __init__(self, p):
        m, n = p.shape
        dev = p.device
        self.left = torch.zeros(m, m, device=dev)
        self.right = torch.zeros(n, n, device=dev)
        self.inv_left = torch.eye(m, device=dev)
        self.inv_right = torch.eye(n, device=dev)
        self.fresh = torch.cuda.Event()
        self.in_flight = False


def inverse_root(mat, damping, power):
    n = mat.size(0)
    eye = torch.eye(n, device=mat.device)
    evals, evecs = torch.linalg.eigh(mat + damping * eye)
    return (evecs * evals.clamp_min(damping).pow(power)) @ evecs.T


class SideShampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, beta=0.95, damping=1e-4, every=10):
        super().__init__(params, dict(lr=lr))
        self.beta, self.damping, self.every = beta, damping, every
        self.side = torch.cuda.Stream()
        self.t = 0
        for p in self._matrices():
            self.state[p]["pair"] = FactorPair(p)

    def _matrices(self):
        for g in self.param_groups:
            for p in g["params"]:
                if p.ndim == 2:
                    yield p

    def _accumulate(self, p, pair):
        g = p.grad
        pair.left.lerp_(g @ g.T, 1 - self.beta)
        pair.right.lerp_(g.T @ g, 1 - self.beta)

    def _refresh(self, pair):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            pair.inv_left.copy_(inverse_root(pair.left, self.damping, -0.25))
            pair.inv_right.copy_(inverse_root(pair.right, self.damping, -0.25))
            pair.fresh.record(self.side)
        pair.in_flight = True

    def _settle(self, pair):
        if pair.in_flight:
            torch.cuda.current_stream().wait_event(pair.fresh)
            pair.in_flight = False

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is None:
                    continue
                if p.ndim != 2:
                    p.add_(p.grad, alpha=-g["lr"])
                    continue
                pair = self.state[p]["pair"]
                self._settle(pair)
                self._accumulate(p, pair)
                update = pair.inv_left @ p.grad @ pair.inv_right
                p.add_(update, alpha=-g["lr"])
        self.t += 1
        if self.t % self.every == 0:
            for p in self._matrices():
                self._refresh(self.state[p]["pair"])


def main():
    torch.manual_seed(0)
    dev = torch.device("cuda")
    net = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 4)).to(dev)
    opt = SideShampoo(net.parameters())
    target = torch.randn(32, 4, device=dev)
    for i in range(300):
        x = torch.randn(512, 32, device=dev)
        loss = (net(x) - torch.sin(x @ target)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 60 == 0:
            print(i, loss.item())


if __name__ == "__main__":
    main()
