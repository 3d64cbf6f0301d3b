"""Delayed weight gradients on a side stream, joined by an optimizer pre-step hook."""
import torch
from torch import nn


class WgradQueue:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def push(self, weight, x, grad):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            dw = grad.t() @ x
            if weight.grad is None:
                weight.grad = dw
            else:
                weight.grad.add_(dw)
        x.record_stream(self.stream)
        grad.record_stream(self.stream)

    def join(self, *_):
        torch.cuda.current_stream().wait_stream(self.stream)


class DelayedMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, queue):
        ctx.save_for_backward(x, weight)
        ctx.queue = queue
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        ctx.queue.push(weight, x, grad)
        return grad @ weight, None, None


class DelayedLinear(nn.Module):
    def __init__(self, din, dout, queue):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dout, din) * din ** -0.5)
        self.queue = queue

    def forward(self, x):
        return DelayedMatmul.apply(x, self.weight, self.queue)


def main():
    queue = WgradQueue()
    net = nn.Sequential(DelayedLinear(512, 2048, queue), nn.ReLU(), DelayedLinear(2048, 512, queue)).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    opt.register_step_pre_hook(queue.join)
    for _ in range(100):
        x = torch.randn(1024, 512, device="cuda", requires_grad=True)
        loss = (net(x) - x.detach()).square().mean()
        loss.backward()
        opt.step()
        for p in net.parameters():
            p.grad.zero_()
    print(loss.item())


if __name__ == "__main__":
    main()
