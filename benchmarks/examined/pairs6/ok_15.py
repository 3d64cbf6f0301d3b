"""Dynamic loss scaling with the overflow flag fetched while the EMA of the loss is updated."""
import torch
import torch.nn as nn


class OverflowFlag:
    def __init__(self):
        self.host = torch.zeros(1, pin_memory=True)
        self.arrived = torch.cuda.Event()

    def post(self, grads):
        norms = torch.stack(torch._foreach_norm(grads))
        bad = (~torch.isfinite(norms)).any().float().view(1)
        self.host.copy_(bad, non_blocking=True)
        self.arrived.record()

    def __bool__(self):
        self.arrived.synchronize()
        return self.host[0].item() != 0


class DynamicScaler:
    def __init__(self, scale=2.0 ** 16, window=500):
        self.scale, self.window, self.good = scale, window, 0
        self.flag = OverflowFlag()

    def backward(self, loss):
        (loss * self.scale).backward()

    def step(self, optimizer, between=None):
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        torch._foreach_div_(grads, self.scale)
        self.flag.post(grads)
        if between is not None:
            between()
        if self.flag:
            self.scale, self.good = self.scale / 2, 0
        else:
            optimizer.step()
            self.good += 1
            if self.good % self.window == 0:
                self.scale *= 2


def main():
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda().half()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = DynamicScaler()
    average = torch.zeros((), device="cuda")
    for step in range(1000):
        x = torch.randn(256, 1024, device="cuda", dtype=torch.half)
        loss = model(x).float().square().mean()
        scaler.backward(loss)
        scaler.step(optimizer, between=lambda: average.lerp_(loss.detach(), 0.01))
        optimizer.zero_grad(set_to_none=True)
    print(average.item(), scaler.scale)


if __name__ == "__main__":
    main()
