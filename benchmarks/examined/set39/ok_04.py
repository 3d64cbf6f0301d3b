"""Host-side optimizer that moves all gradients in one flat transfer."""
import torch
import torch.nn as nn


class FlatHostSGD:
    def __init__(self, params, lr, momentum=0.9):
        self.params = list(params)
        self.lr, self.momentum = lr, momentum
        total = sum(p.numel() for p in self.params)
        self.flat_gpu = torch.zeros(total, device="cuda")
        self.flat_cpu = torch.empty(total, pin_memory=True)
        self.master = torch.cat([p.detach().reshape(-1).cpu() for p in self.params])
        self.velocity = torch.zeros(total)
        self.copy_stream = torch.cuda.Stream()
        self.copied = torch.cuda.Event()

    def _pack(self):
        offset = 0
        for p in self.params:
            n = p.numel()
            self.flat_gpu[offset:offset + n].copy_(p.grad.reshape(-1))
            offset += n
            p.grad = None

    def _download(self):
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            self.flat_cpu.copy_(self.flat_gpu, non_blocking=True)
            self.copied.record()

    @torch.no_grad()
    def step(self, overlap=None):
        self._pack()
        self._download()
        if overlap is not None:
            overlap()
        self.copied.synchronize()
        self.velocity.mul_(self.momentum).add_(self.flat_cpu)
        self.master.add_(self.velocity, alpha=-self.lr)
        offset = 0
        for p in self.params:
            n = p.numel()
            p.copy_(self.master[offset:offset + n].view_as(p))
            offset += n


class MLP(nn.Module):
    def __init__(self, width=4096, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.head(x)


def train(iterations=20):
    torch.manual_seed(0)
    model = MLP().cuda()
    opt = FlatHostSGD(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    history = []
    for _ in range(iterations):
        x = torch.randn(1024, 4096, device="cuda")
        y = torch.randint(0, 10, (1024,), device="cuda")
        loss = criterion(model(x), y)
        loss.backward()
        opt.step(overlap=lambda: history.append(loss.detach()))
    return torch.stack(history)


if __name__ == "__main__":
    print(train().tolist())
