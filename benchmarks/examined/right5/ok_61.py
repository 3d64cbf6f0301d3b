import torch
from torch import nn


class TwoTower(nn.Module):
    """Towers run on two streams in the forward pass; autograd follows them backwards."""

    def __init__(self, dim: int):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(dim, dim), nn.GELU())
        self.left = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.right = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.side = torch.cuda.Stream()

    def forward(self, x):
        h = self.stem(x)
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        h.record_stream(self.side)
        with torch.cuda.stream(self.side):
            r = self.right(h)
        l = self.left(h)
        main.wait_stream(self.side)
        r.record_stream(main)
        return l + r


def main():
    net = TwoTower(512).cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
    avg = 0.0
    for step in range(200):
        x = torch.randn(256, 512, device="cuda")
        loss = (net(x) - x).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if step % 20 == 0:
            avg = 0.9 * avg + 0.1 * loss.item()
    print(avg)


if __name__ == "__main__":
    main()
