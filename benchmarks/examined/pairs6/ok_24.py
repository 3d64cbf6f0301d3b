"""Gradients leave the device as soon as they are accumulated; the host applies momentum SGD."""
import torch
import torch.nn as nn


class HostMomentum:
    def __init__(self, module, lr=0.01, momentum=0.9):
        self.lr, self.momentum = lr, momentum
        self.stream = torch.cuda.Stream()
        self.in_flight = []
        self.weights, self.grads, self.velocity = {}, {}, {}
        for p in module.parameters():
            self.weights[p] = p.detach().cpu().pin_memory()
            self.grads[p] = torch.zeros_like(self.weights[p]).pin_memory()
            self.velocity[p] = torch.zeros_like(self.weights[p])
            p.register_post_accumulate_grad_hook(self._export)

    def _export(self, p):
        grad, p.grad = p.grad, None
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.grads[p].copy_(grad, non_blocking=True)
        self.in_flight.append(grad)

    @torch.no_grad()
    def step(self):
        self.stream.synchronize()
        self.in_flight.clear()
        for p, w in self.weights.items():
            v = self.velocity[p]
            v.mul_(self.momentum).add_(self.grads[p])
            w.sub_(v, alpha=self.lr)
            p.copy_(w)


class ResidualMLP(nn.Module):
    def __init__(self, dim=2048, depth=12):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def main():
    model = ResidualMLP().cuda()
    optimizer = HostMomentum(model)
    for step in range(200):
        x = torch.randn(256, 2048, device="cuda")
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
