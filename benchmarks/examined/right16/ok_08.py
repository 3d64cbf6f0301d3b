"""Linear layer with the weight-gradient product computed on an auxiliary stream."""
from __future__ import annotations

import torch

_AUX: dict[int, torch.cuda.Stream] = {}


def _aux_stream(device: torch.device) -> torch.cuda.Stream:
    index = device.index if device.index is not None else torch.cuda.current_device()
    if index not in _AUX:
        _AUX[index] = torch.cuda.Stream(device=index)
    return _AUX[index]


class _ForkedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        out = x @ weight.t()
        if bias is not None:
            out += bias
        return out

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        grad_x = grad_w = grad_b = None
        main = torch.cuda.current_stream(grad_out.device)
        aux = _aux_stream(grad_out.device)
        wants_w = ctx.needs_input_grad[1]
        wants_b = ctx.has_bias and ctx.needs_input_grad[2]
        rows = grad_out.reshape(-1, grad_out.shape[-1])
        aux.wait_stream(main)
        try:
            with torch.cuda.stream(aux):
                if wants_w:
                    grad_w = rows.t() @ x.reshape(-1, x.shape[-1])
                if wants_b:
                    grad_b = rows.sum(dim=0)
            if ctx.needs_input_grad[0]:
                grad_x = grad_out @ weight
        finally:
            main.wait_stream(aux)
        for grad in (grad_w, grad_b):
            if grad is not None:
                grad.record_stream(main)
        return grad_x, grad_w, grad_b


class ForkedLinear(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _ForkedLinear.apply(x, self.weight, self.bias)


class Block(torch.nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = torch.nn.LayerNorm(dim)
        self.up = ForkedLinear(dim, 4 * dim)
        self.down = ForkedLinear(4 * dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def main() -> None:
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[Block(256) for _ in range(4)]).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(30):
        x = torch.randn(8, 64, 256, device=device)
        loss = (model(x) - x.roll(1, dims=-1)).square().mean()
        optim.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
    print(loss.item())


if __name__ == "__main__":
    main()
