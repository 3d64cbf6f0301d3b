"""Linear layer whose weight gradient is computed beside the input gradient."""
from __future__ import annotations

import functools

import torch
from torch import nn
from torch.autograd.function import once_differentiable


@functools.lru_cache(maxsize=None)
def _wgrad_stream(index: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(torch.device("cuda", index))


class _SplitLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: torch.Tensor):
        x, weight = ctx.saved_tensors
        need_x, need_w, need_b = ctx.needs_input_grad
        grad2 = grad.reshape(-1, grad.shape[-1])
        grad_w = grad_x = grad_b = None
        if not need_w:
            return (grad @ weight if need_x else None), None, (grad2.sum(0) if need_b else None)

        x2 = x.reshape(-1, x.shape[-1])
        grad_w = torch.empty_like(weight)
        current = torch.cuda.current_stream(grad.device)
        side = _wgrad_stream(grad.device.index)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side):
                torch.mm(grad2.t(), x2, out=grad_w)
            if need_x:
                grad_x = grad @ weight
            if need_b:
                grad_b = grad2.sum(0)
        finally:
            current.wait_stream(side)
        return grad_x, grad_w, grad_b


class SplitLinear(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not x.is_cuda or self.bias is None:
            return super().forward(x)
        return _SplitLinear.apply(x, self.weight, self.bias)


def replace_linears(module: nn.Module) -> nn.Module:
    for name, child in module.named_children():
        if type(child) is nn.Linear and child.bias is not None:
            new = SplitLinear(
                child.in_features, child.out_features, device=child.weight.device,
                dtype=child.weight.dtype,
            )
            new.weight, new.bias = child.weight, child.bias
            setattr(module, name, new)
        else:
            replace_linears(child)
    return module


def main() -> None:
    device = torch.device("cuda:0")
    net = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to(device)
    net = replace_linears(net)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    for _ in range(10):
        x = torch.randn(64, 16, 1024, device=device)
        loss = (net(x) - x).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
