"""Line search on device with one pinned proposal buffer and a scalar readback."""
import torch
from torch import nn


class Surrogate(nn.Module):
    def __init__(self, numel, hidden=4096):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(numel, hidden), nn.SiLU(), nn.Linear(hidden, hidden),
            nn.SiLU(), nn.Linear(hidden, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Optimizer:
    def __init__(self, surrogate, numel, device="cuda"):
        self.device = torch.device(device)
        self.surrogate = surrogate.to(self.device).eval()
        self.numel = numel
        self.host = torch.empty(numel, pin_memory=True)
        self.point = torch.empty(numel, device=self.device)
        self.copy_stream = torch.cuda.Stream(self.device)
        self.history = []

    @torch.no_grad()
    def evaluate(self, values):
        main = torch.cuda.current_stream(self.device)
        noise = torch.randn(64, self.numel, device=self.device) * 0.01
        self.host.copy_(values)
        self.copy_stream.wait_stream(main)
        with torch.cuda.stream(self.copy_stream):
            self.point.copy_(self.host, non_blocking=True)
        main.wait_stream(self.copy_stream)
        value = self.surrogate(self.point + noise).mean().item()
        self.history.append(value)
        return value

    def minimize(self, start, sigma=0.3, rounds=200, seed=0):
        gen = torch.Generator().manual_seed(seed)
        best, best_value = start.clone(), self.evaluate(start)
        for _ in range(rounds):
            step = torch.randn(self.numel, generator=gen) * sigma
            for candidate in (best + step, best - step):
                value = self.evaluate(candidate)
                if value < best_value:
                    best, best_value = candidate, value
                    sigma *= 1.1
                    break
            else:
                sigma *= 0.95
        return best, best_value


def main(numel=8192):
    opt = Optimizer(Surrogate(numel), numel)
    return opt.minimize(torch.zeros(numel))[1]


if __name__ == "__main__":
    print(main())
