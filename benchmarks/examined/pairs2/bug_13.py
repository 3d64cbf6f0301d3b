"""Accumulate half-precision gradients into float buffers during backward."""
import torch
import torch.nn as nn


class Fp32GradBuffers:
    def __init__(self, net):
        self.side = torch.cuda.Stream()
        self.buffers = {}
        self.handles = []
        for name, p in net.named_parameters():
            self.buffers[name] = torch.zeros(p.shape, device="cuda")
            self.handles.append(p.register_post_accumulate_grad_hook(self._make_hook(name)))
        self.side.wait_stream(torch.cuda.current_stream())

    def _make_hook(self, name):
        def hook(param):
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self.buffers[name].add_(param.grad)
            param.grad = None
        return hook

    def synchronized(self):
        torch.cuda.current_stream().wait_stream(self.side)
        return self.buffers

    def clear(self):
        for buf in self.buffers.values():
            buf.zero_()
        self.side.wait_stream(torch.cuda.current_stream())


class SignOptimizer:
    def __init__(self, net, lr=1e-4):
        self.named = dict(net.named_parameters())
        self.lr = lr

    @torch.no_grad()
    def step(self, buffers):
        for name, p in self.named.items():
            p.sub_(buffers[name].sign().to(p.dtype), alpha=self.lr)


def pretrain(steps=100, micro=8):
    net = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(10)]).half().cuda()
    grads = Fp32GradBuffers(net)
    opt = SignOptimizer(net)
    for _ in range(steps):
        for _ in range(micro):
            x = torch.randn(32, 2048, device="cuda", dtype=torch.half)
            net(x).float().abs().mean().backward()
        opt.step(grads.synchronized())
        grads.clear()


pretrain()
