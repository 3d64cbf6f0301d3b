"""Physics-informed network: residual derivatives on a second stream."""
import math

import torch
import torch.nn as nn


class SineNet(nn.Module):
    def __init__(self, width=256, depth=4):
        super().__init__()
        dims = [2] + [width] * depth
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.out = nn.Linear(width, 1)

    def forward(self, xt):
        h = xt
        for layer in self.layers:
            h = torch.sin(layer(h))
        return self.out(h)


class Collocation:
    def __init__(self, n, device, seed=0):
        self.n, self.device = n, device
        self.gen = torch.Generator(device=device).manual_seed(seed)

    def interior(self):
        xt = torch.rand(self.n, 2, generator=self.gen, device=self.device)
        return xt.requires_grad_(True)

    def boundary(self):
        t = torch.rand(self.n // 8, 1, generator=self.gen, device=self.device)
        side = (torch.rand(self.n // 8, 1, generator=self.gen, device=self.device) < 0.5).float()
        return torch.cat([side, t], dim=1)

    def initial(self):
        x = torch.rand(self.n // 8, 1, generator=self.gen, device=self.device)
        return torch.cat([x, torch.zeros_like(x)], dim=1), torch.sin(math.pi * x)


class ResidualProbe:
    """Evaluates du/dt - nu * d2u/dx2 at fresh points for importance sampling."""

    def __init__(self, net, nu):
        self.net, self.nu = net, nu
        self.stream = torch.cuda.Stream()
        self.points = None

    def evaluate(self, xt):
        self.points = xt
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            u = self.net(xt)
            (g,) = torch.autograd.grad(u, xt, torch.ones_like(u), create_graph=True)
            (gx,) = torch.autograd.grad(g[:, :1], xt, torch.ones_like(g[:, :1]))
            res = (g[:, 1:] - self.nu * gx[:, :1]).detach().abs()
        return res.squeeze(1)


class Trainer:
    def __init__(self, nu=0.05, n=8192):
        self.device = torch.device("cuda")
        self.net = SineNet().to(self.device)
        self.opt = torch.optim.Adam(self.net.parameters(), 1e-3)
        self.data = Collocation(n, self.device)
        self.probe = ResidualProbe(self.net, nu)
        self.nu = nu
        self.points = self.data.interior().detach()

    def refine(self, keep=0.25):
        cand = self.data.interior()
        res = self.probe.evaluate(cand)
        k = int(keep * self.data.n)
        top = res.topk(k).indices
        fresh = self.data.interior().detach()
        fresh[:k] = cand.detach()[top]
        self.points = fresh

    def loss(self):
        xt = self.points.clone().requires_grad_(True)
        u = self.net(xt)
        (g,) = torch.autograd.grad(u, xt, torch.ones_like(u), create_graph=True)
        (gx,) = torch.autograd.grad(g[:, :1], xt, torch.ones_like(g[:, :1]), create_graph=True)
        pde = (g[:, 1:] - self.nu * gx[:, :1]).square().mean()
        x0, u0 = self.data.initial()
        return pde + self.net(self.data.boundary()).square().mean() + (self.net(x0) - u0).square().mean()

    def fit(self, steps):
        for i in range(steps):
            if i and i % 20 == 0:
                self.refine()
            loss = self.loss()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            if i % 100 == 0:
                print(i, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer().fit(400)
