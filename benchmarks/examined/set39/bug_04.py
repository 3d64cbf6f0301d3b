"""Trains with the master weights and optimizer state on the host."""
import torch
import torch.nn as nn


class HostSGD:
    def __init__(self, params, lr, momentum=0.9):
        self.lr = lr
        self.momentum = momentum
        self.stream = torch.cuda.Stream()
        self.slots = []
        for p in params:
            slot = {
                "param": p,
                "master": p.detach().cpu().float().pin_memory(),
                "cpu_grad": torch.zeros(p.shape, dtype=torch.float32).pin_memory(),
                "velocity": torch.zeros(p.shape, dtype=torch.float32),
            }
            self.slots.append(slot)
            p.register_post_accumulate_grad_hook(self._make_hook(slot))

    def _make_hook(self, slot):
        def offload(param):
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                grad = param.grad
                slot["cpu_grad"].copy_(grad, non_blocking=True)
                grad.record_stream(self.stream)
            param.grad = None

        return offload

    @torch.no_grad()
    def step(self):
        for slot in self.slots:
            slot["velocity"].mul_(self.momentum).add_(slot["cpu_grad"])
            slot["master"].add_(slot["velocity"], alpha=-self.lr)
        for slot in self.slots:
            slot["param"].copy_(slot["master"])


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
    opt = HostSGD(list(model.parameters()), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    history = []
    for _ in range(iterations):
        x = torch.randn(1024, 4096, device="cuda")
        y = torch.randint(0, 10, (1024,), device="cuda")
        loss = criterion(model(x), y)
        loss.backward()
        opt.step()
        history.append(loss.detach())
    return torch.stack(history)


if __name__ == "__main__":
    print(train().tolist())
