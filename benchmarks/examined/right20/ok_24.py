import torch
from torch import nn


class SpilledMomentum:
    """Momentum buffers live in pinned memory and visit the GPU for the update only."""

    def __init__(self, params, lr, beta=0.9):
        self.params = list(params)
        self.lr, self.beta = lr, beta
        self.lane = torch.cuda.Stream()
        self.home = {p: torch.zeros(p.shape, pin_memory=True) for p in self.params}
        self.guest = {}
        self.landed = {}
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.invite)

    def invite(self, p):
        with torch.cuda.stream(self.lane):
            self.guest[p] = self.home[p].to(p.device, non_blocking=True)
            self.landed[p] = self.lane.record_event()

    @torch.no_grad()
    def step(self):
        here = torch.cuda.current_stream()
        leaving = []
        for p in sorted(self.guest, key=lambda q: (q.ndim, q.numel())):
            here.wait_event(self.landed.pop(p))
            buf = self.guest[p]
            buf.mul_(self.beta).add_(p.grad)
            p.add_(buf, alpha=-self.lr)
            leaving.append(p)
        self.lane.wait_stream(here)
        with torch.cuda.stream(self.lane):
            for p in reversed(leaving):
                self.home[p].copy_(self.guest.pop(p), non_blocking=True)

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def dump(self):
        self.lane.synchronize()
        return [self.home[p].clone() for p in self.params]


class Encoder(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.cells = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        for cell in self.cells:
            x = self.norm(x + torch.relu(cell(x)))
        return x


def main():
    net = Encoder(256, 5).cuda()
    opt = SpilledMomentum(net.parameters(), lr=0.01)
    for i in range(30):
        x = torch.randn(128, 256, device="cuda")
        loss = (net(x) - x.flip(1)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(i, loss.item(), max(m.abs().max().item() for m in opt.dump()))


if __name__ == "__main__":
    main()
