"""Adam on the host: gradients leave the device during backward, parameters return after the step."""
import torch
from torch import nn


class HostAdam:
    def __init__(self, module, lr=1e-3):
        self.stream = torch.cuda.Stream()
        self.pairs = {}
        self.landed = {}
        for p in module.parameters():
            host = torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            host.copy_(p.detach())
            host.grad = torch.zeros(p.shape, dtype=p.dtype, pin_memory=True)
            self.pairs[p] = host
            p.register_post_accumulate_grad_hook(self._offload)
        self.inner = torch.optim.Adam(list(self.pairs.values()), lr=lr)

    @torch.no_grad()
    def _offload(self, p):
        host = self.pairs[p]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.grad.copy_(p.grad, non_blocking=True)
            self.landed[p] = self.stream.record_event()
        p.grad.record_stream(self.stream)
        p.grad = None

    @torch.no_grad()
    def step(self):
        compute = torch.cuda.current_stream()
        for event in self.landed.values():
            event.synchronize()
        self.inner.step()
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            for p, host in self.pairs.items():
                p.copy_(host, non_blocking=True)
        compute.wait_stream(self.stream)
        self.stream.synchronize()
        self.landed.clear()


class Net(nn.Module):
    def __init__(self, dim=2048, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def main():
    net = Net().cuda()
    opt = HostAdam(net)
    running = torch.zeros((), device="cuda")
    for _ in range(20):
        x = torch.randn(64, 2048, device="cuda")
        loss = (net(x) - x.roll(1, dims=1)).square().mean()
        loss.backward()
        opt.step()
        running += loss.detach()
    print(running.item() / 20)


if __name__ == "__main__":
    main()
