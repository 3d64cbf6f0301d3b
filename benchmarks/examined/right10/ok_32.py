"""Optimizer state on the host: gradients go down, updated weights come back."""
import torch
from torch import nn


class HostAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps, self.t = lr, betas, eps, 0
        pin = dict(device="cpu", dtype=torch.float32, pin_memory=True)
        self.grads = [torch.zeros(p.shape, **pin) for p in self.params]
        self.master = [torch.zeros(p.shape, **pin) for p in self.params]
        for m, p in zip(self.master, self.params):
            m.copy_(p.detach())
        self.m = [torch.zeros_like(g) for g in self.grads]
        self.v = [torch.zeros_like(g) for g in self.grads]
        self.down = torch.cuda.Stream()
        self.up = torch.cuda.Stream()

    def _fetch(self):
        marks = []
        self.down.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.down):
            for p, g in zip(self.params, self.grads):
                g.copy_(p.grad, non_blocking=True)
                marks.append(self.down.record_event(torch.cuda.Event(blocking=True)))
        return marks

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        marks = self._fetch()
        self.up.wait_stream(torch.cuda.current_stream())
        self.up.synchronize()
        for i, p in enumerate(self.params):
            marks[i].synchronize()
            g, m, v = self.grads[i], self.m[i], self.v[i]
            m.lerp_(g, 1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            mhat = m / (1 - b1 ** self.t)
            vhat = v / (1 - b2 ** self.t)
            self.master[i].addcdiv_(mhat, vhat.sqrt_().add_(self.eps), value=-self.lr)
            with torch.cuda.stream(self.up):
                p.copy_(self.master[i], non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.up)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


def main():
    net = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024)).cuda()
    opt = HostAdam(net.parameters())
    for step in range(50):
        x = torch.randn(64, 1024, device="cuda")
        loss = (net(x) - x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
