"""Muon-style optimizer whose orthogonalisation overlaps with backward."""
import torch
import torch.nn as nn


@torch.no_grad()
def newton_schulz(g, steps=5, eps=1e-7):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    x = x / (x.norm() + eps)
    flip = x.size(0) > x.size(1)
    if flip:
        x = x.T
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * (s @ s)) @ x
    return (x.T if flip else x).to(g.dtype)


class OverlappedMuon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, overlap=True):
        super().__init__(params, dict(lr=lr, momentum=momentum))
        self.overlap = overlap
        self.ns_stream = torch.cuda.Stream()
        self._updates = {}
        self._handles = []
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim == 2 and overlap:
                    hook = self._make_hook(group)
                    self._handles.append(p.register_post_accumulate_grad_hook(hook))

    def _momentum(self, p, group):
        state = self.state[p]
        if "buf" not in state:
            state["buf"] = torch.zeros_like(p)
            state["update"] = torch.zeros_like(p)
        state["buf"].lerp_(p.grad, 1.0 - group["momentum"])
        return state

    def _make_hook(self, group):
        def hook(p):
            state = self._momentum(p, group)
            self.ns_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.ns_stream):
                scale = max(1.0, p.size(0) / p.size(1)) ** 0.5
                state["update"].copy_(newton_schulz(state["buf"]).mul_(scale))
            self._updates[p] = state["update"]
        return hook

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            lr = group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p in self._updates:
                    p.add_(self._updates[p], alpha=-lr)
                elif p.ndim == 2:
                    state = self._momentum(p, group)
                    p.add_(newton_schulz(state["buf"]), alpha=-lr)
                else:
                    p.add_(p.grad, alpha=-0.1 * lr)
        self._updates.clear()

    def close(self):
        for h in self._handles:
            h.remove()
        self._handles.clear()


class Net(nn.Module):
    def __init__(self, d=1024, depth=6):
        super().__init__()
        self.inp = nn.Linear(64, d)
        self.body = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        self.out = nn.Linear(d, 8)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        for layer in self.body:
            x = x + torch.relu(layer(x)) * 0.5
        return self.out(x)


def batches(n, size, device):
    gen = torch.Generator(device=device).manual_seed(7)
    w = torch.randn(64, 8, device=device, generator=gen)
    for _ in range(n):
        x = torch.randn(size, 64, device=device, generator=gen)
        yield x, torch.tanh(x @ w)


def main():
    device = torch.device("cuda")
    net = Net().to(device)
    opt = OverlappedMuon(net.parameters())
    for i, (x, y) in enumerate(batches(200, 512, device)):
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=False)
        if i % 50 == 0:
            print(i, loss.item())
    opt.close()


if __name__ == "__main__":
    main()
