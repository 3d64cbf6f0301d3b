"""Adam on the host over pinned master weights, gradients streamed down and weights up."""
import torch
from torch import nn


class HostAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.params = [p for p in params if p.requires_grad]
        self.device = self.params[0].device
        self.lr, self.betas, self.eps = lr, betas, eps
        self.stream = torch.cuda.Stream(self.device)
        self.state = []
        for p in self.params:
            master = torch.empty(p.shape, dtype=torch.float32, pin_memory=True)
            master.copy_(p.detach())
            grad = torch.empty(p.shape, dtype=torch.float32, pin_memory=True)
            self.state.append({"master": master, "grad": grad, "t": 0,
                               "m": torch.zeros(p.shape), "v": torch.zeros(p.shape),
                               "down": torch.cuda.Event()})

    @torch.no_grad()
    def step(self):
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        active = []
        with torch.cuda.stream(self.stream):
            for p, s in zip(self.params, self.state):
                if p.grad is None:
                    continue
                s["grad"].copy_(p.grad, non_blocking=True)
                s["down"].record(self.stream)
                p.grad.record_stream(self.stream)
                p.grad = None
                active.append((p, s))
        try:
            for p, s in active:
                s["down"].synchronize()
                self._update(s)
                with torch.cuda.stream(self.stream):
                    p.data.copy_(s["master"], non_blocking=True)
        finally:
            current.wait_stream(self.stream)

    def _update(self, s):
        b1, b2 = self.betas
        s["t"] += 1
        s["m"].lerp_(s["grad"], 1 - b1)
        s["v"].mul_(b2).addcmul_(s["grad"], s["grad"], value=1 - b2)
        m = s["m"] / (1 - b1 ** s["t"])
        v = s["v"] / (1 - b2 ** s["t"])
        s["master"].addcdiv_(m, v.sqrt_().add_(self.eps), value=-self.lr)

    def masters(self):
        return [s["master"].clone() for s in self.state]


def main(steps=30):
    device = torch.device("cuda", torch.cuda.current_device())
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).to(device)
    optimizer = HostAdam(model.parameters())
    for step in range(steps):
        x = torch.randn(64, 256, device=device)
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
