"""Autograd function which evaluates its two branches concurrently."""
import torch
import torch.nn as nn

_BRANCH = None


def branch_stream():
    global _BRANCH
    if _BRANCH is None:
        _BRANCH = torch.cuda.Stream()
    return _BRANCH


class GatedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w_gate, w_up):
        main, side = torch.cuda.current_stream(), branch_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            gate = torch.sigmoid(x @ w_gate)
        up = x @ w_up
        main.wait_stream(side)
        gate.record_stream(main)
        ctx.save_for_backward(x, w_gate, w_up, gate, up)
        return gate * up

    @staticmethod
    def backward(ctx, grad):
        x, w_gate, w_up, gate, up = ctx.saved_tensors
        main, side = torch.cuda.current_stream(), branch_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            d_gate = grad * up * gate * (1 - gate)
            gw_gate = x.t() @ d_gate
            gx_gate = d_gate @ w_gate.t()
        d_up = grad * gate
        gw_up = x.t() @ d_up
        gx_up = d_up @ w_up.t()
        main.wait_stream(side)
        for t in (gw_gate, gx_gate):
            t.record_stream(main)
        return gx_up + gx_gate, gw_gate, gw_up


class GatedMlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w_gate = nn.Parameter(torch.randn(dim, hidden) * 0.02)
        self.w_up = nn.Parameter(torch.randn(dim, hidden) * 0.02)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(GatedProduct.apply(x, self.w_gate, self.w_up))


def main():
    model = nn.Sequential(*[GatedMlp(512, 2048) for _ in range(4)]).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(100):
        x = torch.randn(1024, 512, device="cuda")
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
