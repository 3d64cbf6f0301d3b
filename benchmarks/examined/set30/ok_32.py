"""Residual block whose shortcut runs on its own stream, forward and backward."""
import torch
from torch import nn


class TwoLaneBlock(nn.Module):
    def __init__(self, width, lane):
        super().__init__()
        self.lane = lane
        self.body = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
            nn.Linear(4 * width, width),
        )
        self.shortcut = nn.Linear(width, width, bias=False)

    def forward(self, x):
        main = torch.cuda.current_stream(x.device)
        self.lane.wait_stream(main)
        with torch.cuda.stream(self.lane):
            skip = self.shortcut(x)
        x.record_stream(self.lane)
        y = self.body(x)
        main.wait_stream(self.lane)
        skip.record_stream(main)
        return y + skip


class TwoLaneNet(nn.Module):
    def __init__(self, width=2048, depth=6, classes=100, device="cuda"):
        super().__init__()
        self.lane = torch.cuda.Stream(device)
        self.blocks = nn.ModuleList(TwoLaneBlock(width, self.lane) for _ in range(depth))
        self.head = nn.Linear(width, classes)
        self.to(device)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class ClippedSGD:
    def __init__(self, params, lr, max_norm):
        self.params = list(params)
        self.lr = lr
        self.max_norm = max_norm

    @torch.no_grad()
    def step(self):
        grads = [p.grad for p in self.params if p.grad is not None]
        norms = torch._foreach_norm(grads)
        total = torch.linalg.vector_norm(torch.stack(norms))
        factor = (self.max_norm / (total + 1e-6)).clamp(max=1.0)
        for p in self.params:
            if p.grad is not None:
                p.sub_(p.grad * (self.lr * factor))
                p.grad = None
        return total


def train(batches, width=2048):
    net = TwoLaneNet(width)
    opt = ClippedSGD(net.parameters(), lr=1e-2, max_norm=1.0)
    log = []
    for x, y in batches:
        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
        loss.backward()
        log.append((loss.detach(), opt.step()))
    return [(a.item(), b.item()) for a, b in log]


def synthetic(count, batch=256, width=2048, classes=100):
    for _ in range(count):
        yield torch.randn(batch, width), torch.randint(0, classes, (batch,))


if __name__ == "__main__":
    print(train(synthetic(20))[-1])
