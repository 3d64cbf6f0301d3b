import copy

import torch
import torch.nn as nn


class AsyncEMA:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, half_life: int = 100):
        self.model = model
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)
        self.beta = 0.5 ** (1.0 / half_life)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.steps = 0
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer, args, kwargs):
        torch.cuda.current_stream().wait_stream(self.stream)

    def _after_step(self, optimizer, args, kwargs):
        self.steps += 1
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._blend()

    @torch.no_grad()
    def _blend(self):
        live = [p.detach() for p in self.model.parameters()]
        avg = list(self.shadow.parameters())
        torch._foreach_lerp_(avg, live, 1.0 - self.beta)
        for dst, src in zip(self.shadow.buffers(), self.model.buffers()):
            dst.copy_(src)

    def module(self) -> nn.Module:
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.shadow


class Regressor(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("shift", torch.linspace(-1, 1, width))
        self.net = nn.Sequential(
            nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x + self.shift)


class Trainer:
    def __init__(self, width: int = 768):
        self.model = Regressor(width).cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-2, momentum=0.9)
        self.ema = AsyncEMA(self.model, self.opt)
        self.width = width

    def batch(self, n: int = 256):
        x = torch.randn(n, self.width, device="cuda")
        return x, x[:, :8].sum(1, keepdim=True)

    def fit(self, steps: int):
        for step in range(steps):
            x, y = self.batch()
            loss = nn.functional.smooth_l1_loss(self.model(x), y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            if (step + 1) % 50 == 0:
                self.validate(step)

    @torch.no_grad()
    def validate(self, step: int):
        x, y = self.batch(1024)
        out = self.ema.module()(x)
        print(step, nn.functional.mse_loss(out, y).item())


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer().fit(200)
