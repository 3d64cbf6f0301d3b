"""Adapter layers: the frozen path and the low rank path run side by side."""
import torch
import torch.nn as nn


class LowRankFn(torch.autograd.Function):
    stream = None

    @staticmethod
    def forward(ctx, x, a, b, scale):
        ctx.scale = scale
        low = x @ a
        ctx.save_for_backward(x, a, b, low)
        return (low @ b) * scale

    @staticmethod
    def backward(ctx, grad):
        x, a, b, low = ctx.saved_tensors
        main = torch.cuda.current_stream()
        if LowRankFn.stream is None:
            LowRankFn.stream = torch.cuda.Stream()
        side = LowRankFn.stream
        grad = grad * ctx.scale
        grad_low = grad @ b.t()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            grad_a = x.flatten(0, 1).t() @ grad_low.flatten(0, 1)
            grad_b = low.flatten(0, 1).t() @ grad.flatten(0, 1)
        for t in (x, low, grad, grad_low):
            t.record_stream(side)
        grad_x = grad_low @ a.t()
        grad_a.record_stream(main)
        grad_b.record_stream(main)
        return grad_x, grad_a, grad_b, None


class LoraLinear(nn.Module):
    def __init__(self, dim, rank=16, alpha=32):
        super().__init__()
        self.base = nn.Linear(dim, dim).requires_grad_(False)
        self.a = nn.Parameter(torch.randn(dim, rank) / dim)
        self.b = nn.Parameter(torch.zeros(rank, dim))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + LowRankFn.apply(x, self.a, self.b, self.scale)


def finetune():
    model = nn.Sequential(*[LoraLinear(2048) for _ in range(12)]).cuda()
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-3)
    for _ in range(300):
        x = torch.randn(8, 512, 2048, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.save({k: v for k, v in model.state_dict().items() if "base" not in k}, "lora.pt")


if __name__ == "__main__":
    finetune()
