import torch
from torch import nn


class CopyTo(torch.autograd.Function):
    """Moves an activation to the next partition over two copy streams."""

    @staticmethod
    def forward(ctx, prev, nxt, x):
        ctx.prev, ctx.nxt = prev, nxt
        prev.wait_stream(torch.cuda.current_stream(prev.device))
        with torch.cuda.stream(prev), torch.cuda.stream(nxt):
            y = x.to(nxt.device, non_blocking=True)
        nxt.wait_stream(prev)
        x.record_stream(prev)
        here = torch.cuda.current_stream(nxt.device)
        here.wait_stream(nxt)
        y.record_stream(here)
        return y

    @staticmethod
    def backward(ctx, grad):
        prev, nxt = ctx.prev, ctx.nxt
        nxt.wait_stream(torch.cuda.current_stream(nxt.device))
        with torch.cuda.stream(nxt), torch.cuda.stream(prev):
            g = grad.to(prev.device, non_blocking=True)
        prev.wait_stream(nxt)
        grad.record_stream(nxt)
        here = torch.cuda.current_stream(prev.device)
        here.wait_stream(prev)
        g.record_stream(here)
        return None, None, g


class TwoDevicePipe(nn.Module):
    def __init__(self, dim, depth, chunks):
        super().__init__()
        self.first = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)]).to("cuda:0")
        self.second = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.GELU()) for _ in range(depth)]).to("cuda:1")
        self.chunks = chunks
        self.copies = [(torch.cuda.Stream("cuda:0"), torch.cuda.Stream("cuda:1")) for _ in range(chunks)]

    def forward(self, x):
        outs = []
        for piece, (prev, nxt) in zip(x.chunk(self.chunks), self.copies):
            hidden = self.first(piece)
            outs.append(self.second(CopyTo.apply(prev, nxt, hidden)))
        return torch.cat(outs)


def main():
    pipe = TwoDevicePipe(1024, 4, chunks=4)
    opt = torch.optim.SGD(pipe.parameters(), lr=0.01)
    for step in range(20):
        x = torch.randn(256, 1024, device="cuda:0")
        loss = pipe(x).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
