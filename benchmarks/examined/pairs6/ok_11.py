"""Linear layer whose weight gradient is computed next to the input gradient."""
import torch
import torch.nn as nn


class WgradStream:
    _streams = {}

    @classmethod
    def get(cls, device):
        if device not in cls._streams:
            cls._streams[device] = torch.cuda.Stream(device)
        return cls._streams[device]


class ParallelLinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        current = torch.cuda.current_stream()
        side = WgradStream.get(grad_out.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            grad_weight = grad_out.flatten(0, -2).t() @ x.flatten(0, -2)
        grad_x = grad_out @ weight
        current.wait_stream(side)
        grad_weight.record_stream(current)
        return grad_x, grad_weight


class ParallelLinear(nn.Module):
    def __init__(self, inp, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, inp) * inp ** -0.5)

    def forward(self, x):
        return ParallelLinearFn.apply(x, self.weight)


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = ParallelLinear(dim, 4 * dim)
        self.down = ParallelLinear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def main():
    model = nn.Sequential(*[FeedForward(1024) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(200):
        x = torch.randn(16, 256, 1024, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(loss.item())


if __name__ == "__main__":
    main()
