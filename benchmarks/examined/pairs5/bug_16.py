"""Weight gradients deferred to a second stream; gradient clipping and the optimizer follow backward."""
import torch
from torch import nn


class DeferredGrads:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.pending = []

    def add(self, weight, x, grad):
        self.pending.append((weight, x, grad))

    @torch.no_grad()
    def flush(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for weight, x, grad in self.pending:
                weight.main_grad.addmm_(grad.t(), x)
                x.record_stream(self.stream)
                grad.record_stream(self.stream)
        self.pending.clear()

    def wait(self):
        torch.cuda.current_stream().wait_stream(self.stream)


class SplitLinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, deferred):
        ctx.save_for_backward(x, weight)
        ctx.deferred = deferred
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        ctx.deferred.add(weight, x, grad)
        return grad @ weight, None, None


class SplitLinear(nn.Module):
    def __init__(self, din, dout, deferred):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dout, din, device="cuda") * din ** -0.5)
        self.weight.main_grad = torch.zeros_like(self.weight)
        self.deferred = deferred

    def forward(self, x):
        return SplitLinearFn.apply(x, self.weight, self.deferred)


class Trainer:
    def __init__(self, net, deferred, lr=1e-3, clip=1.0):
        self.net, self.deferred, self.lr, self.clip = net, deferred, lr, clip

    @torch.no_grad()
    def update(self):
        grads = [p.main_grad for p in self.net.parameters()]
        norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in grads]))
        scale = (self.clip / (norm + 1e-6)).clamp(max=1.0)
        self.deferred.wait()
        for p, g in zip(self.net.parameters(), grads):
            p.sub_(self.lr * scale * g)
            g.zero_()

    def step(self, x):
        loss = (self.net(x) - x.detach()).square().mean()
        loss.backward()
        self.deferred.flush()
        self.update()
        return loss


def main():
    deferred = DeferredGrads()
    net = nn.Sequential(SplitLinear(512, 2048, deferred), nn.ReLU(), SplitLinear(2048, 512, deferred))
    trainer = Trainer(net, deferred)
    for _ in range(200):
        loss = trainer.step(torch.randn(2048, 512, device="cuda", requires_grad=True))
    print(loss.item())


if __name__ == "__main__":
    main()
