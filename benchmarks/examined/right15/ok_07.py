"""Linear layer whose weight-gradient product overlaps with its input gradient."""
import torch
from torch import nn

_STREAMS = {}


def _side_stream(device):
    if device not in _STREAMS:
        _STREAMS[device] = torch.cuda.Stream(device)
    return _STREAMS[device]


class OverlappedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = grad_w = grad_b = None
        current = torch.cuda.current_stream(grad.device)
        side = _side_stream(grad.device)
        flat = grad.reshape(-1, grad.shape[-1])
        forked = ctx.needs_input_grad[1]
        if forked:
            side.wait_stream(current)
            with torch.cuda.stream(side):
                grad_w = flat.t() @ x.reshape(-1, x.shape[-1])
        if ctx.needs_input_grad[0]:
            grad_x = grad @ weight
        if ctx.has_bias and ctx.needs_input_grad[2]:
            grad_b = flat.sum(0)
        if forked:
            current.wait_stream(side)
            grad_w.record_stream(current)
        return grad_x, grad_w, grad_b


class Linear(nn.Linear):
    def forward(self, x):
        if not x.is_cuda:
            return super().forward(x)
        return OverlappedLinear.apply(x, self.weight, self.bias)


def check(device):
    torch.manual_seed(0)
    ours = Linear(64, 32).to(device).double()
    theirs = nn.Linear(64, 32).to(device).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(5, 7, 64, device=device, dtype=torch.double)
    a = x.clone().requires_grad_()
    b = x.clone().requires_grad_()
    ours(a).square().sum().backward()
    theirs(b).square().sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


if __name__ == "__main__":
    check(torch.device("cuda", torch.cuda.current_device()))
