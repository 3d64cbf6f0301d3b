import torch
from torch import nn
from torch.autograd import Function

_SIDE = {}


def side_stream(device):
    index = device.index
    if index not in _SIDE:
        _SIDE[index] = torch.cuda.Stream(device)
    return _SIDE[index]


class PairedProjection(Function):
    @staticmethod
    def forward(ctx, x, wa, wb):
        current = torch.cuda.current_stream(x.device)
        side = side_stream(x.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            b = torch.mm(x, wb)
        a = torch.mm(x, wa)
        current.wait_stream(side)
        b.record_stream(current)
        ctx.save_for_backward(x, wa, wb)
        return a, b

    @staticmethod
    def backward(ctx, ga, gb):
        x, wa, wb = ctx.saved_tensors
        current = torch.cuda.current_stream(x.device)
        side = side_stream(x.device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            gx_b = torch.mm(gb, wb.t())
            gwb = torch.mm(x.t(), gb)
        gx = torch.mm(ga, wa.t())
        gwa = torch.mm(x.t(), ga)
        current.wait_stream(side)
        gwb.record_stream(current)
        gx_b.record_stream(current)
        gx += gx_b
        return gx, gwa, gwb


class GatedBlock(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.wa = nn.Parameter(torch.randn(width, hidden) / width ** 0.5)
        self.wb = nn.Parameter(torch.randn(width, hidden) / width ** 0.5)
        self.out = nn.Linear(hidden, width)

    def forward(self, x):
        shape = x.shape
        a, b = PairedProjection.apply(x.reshape(-1, shape[-1]), self.wa, self.wb)
        return self.out(torch.sigmoid(a) * b).view(shape)


def reference(block, x):
    return block.out(torch.sigmoid(x @ block.wa) * (x @ block.wb))


def main():
    torch.manual_seed(0)
    block = GatedBlock(256, 1024).cuda()
    opt = torch.optim.SGD(block.parameters(), lr=1e-2)
    x = torch.randn(8, 32, 256, device="cuda", requires_grad=True)
    block(x).square().mean().backward()
    got = x.grad.clone()
    x.grad = None
    block.zero_grad()
    reference(block, x).square().mean().backward()
    print((got - x.grad).abs().max().item())
    for _ in range(20):
        opt.zero_grad()
        data = torch.randn(8, 32, 256, device="cuda")
        loss = (block(data) - data).square().mean()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
