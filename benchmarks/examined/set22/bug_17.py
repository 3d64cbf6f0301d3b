"""MoE shared expert forked onto a side stream with hand-written autograd nodes."""
import torch
import torch.nn.functional as F
from torch import nn

_SIDE = {}


def side_stream(device):
    if device not in _SIDE:
        _SIDE[device] = torch.cuda.Stream(device)
    return _SIDE[device]


class SharedExpertFn(torch.autograd.Function):
    """Two-layer MLP evaluated on the side stream in both passes."""

    @staticmethod
    def forward(ctx, x, w1, w2):
        main = torch.cuda.current_stream(x.device)
        side = side_stream(x.device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            h = x @ w1.t()
            a = F.silu(h)
            y = a @ w2.t()
        for t in (x, w1, w2):
            t.record_stream(side)
        ctx.save_for_backward(x, w1, w2, h)
        return y

    @staticmethod
    def backward(ctx, grad_y):
        x, w1, w2, h = ctx.saved_tensors
        main = torch.cuda.current_stream(grad_y.device)
        side = side_stream(grad_y.device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            sig = torch.sigmoid(h)
            grad_a = grad_y @ w2
            grad_w2 = grad_y.t() @ (h * sig)
            grad_h = grad_a * (sig * (1 + h * (1 - sig)))
            grad_w1 = grad_h.t() @ x
            grad_x = grad_h @ w1
        for t in (grad_y, x, w1, w2):
            t.record_stream(side)
        for t in (grad_x, grad_w1, grad_w2):
            t.record_stream(main)
        return grad_x, grad_w1, grad_w2


class MoEBlock(nn.Module):
    def __init__(self, dim, hidden, num_experts):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.up = nn.Parameter(torch.randn(num_experts, hidden, dim) * 0.02)
        self.down = nn.Parameter(torch.randn(num_experts, dim, hidden) * 0.02)
        self.shared_w1 = nn.Parameter(torch.randn(hidden, dim) * 0.02)
        self.shared_w2 = nn.Parameter(torch.randn(dim, hidden) * 0.02)

    def routed(self, x):
        scores = self.gate(x).softmax(-1)
        out = 0
        for e in range(self.up.shape[0]):
            out = out + scores[:, e:e + 1] * (F.silu(x @ self.up[e].t()) @ self.down[e].t())
        return out

    def forward(self, x):
        shared = SharedExpertFn.apply(x, self.shared_w1, self.shared_w2)
        routed = self.routed(x)
        main = torch.cuda.current_stream(x.device)
        main.wait_stream(side_stream(x.device))
        shared.record_stream(main)
        return routed + shared


def train(loader, steps, dim=1024, hidden=2816, experts=8, depth=4):
    model = nn.Sequential(*[MoEBlock(dim, hidden, experts) for _ in range(depth)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for _, (x, y) in zip(range(steps), loader):
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()
