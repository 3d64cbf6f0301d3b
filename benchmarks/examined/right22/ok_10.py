import copy

import torch
from torch import nn


class Ema:
    def __init__(self, model, decay):
        self.model = model
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def attach(self, opt):
        opt.register_step_pre_hook(self._before)
        opt.register_step_post_hook(self._after)
        return opt

    def _before(self, opt, args, kwargs):
        torch.cuda.current_stream().wait_stream(self.stream)

    @torch.no_grad()
    def _after(self, opt, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            src = list(self.model.parameters())
            dst = list(self.shadow.parameters())
            torch._foreach_lerp_(dst, src, 1 - self.decay)

    def model_for_eval(self):
        self.stream.synchronize()
        return self.shadow


class Task:
    def __init__(self, width):
        self.width = width
        self.gen = torch.Generator(device="cuda").manual_seed(3)

    def batch(self, n):
        x = torch.randn(n, self.width, device="cuda", generator=self.gen)
        return x, x.sin()


def fit(model, opt, task, steps):
    lossfn = nn.MSELoss()
    for _ in range(steps):
        x, y = task.batch(64)
        opt.zero_grad(set_to_none=False)
        loss = lossfn(model(x), y)
        loss.backward()
        opt.step()
    return loss.item()


def main():
    model = nn.Sequential(nn.Linear(100, 400), nn.LayerNorm(400), nn.GELU(), nn.Linear(400, 100)).cuda()
    ema = Ema(model, 0.995)
    opt = ema.attach(torch.optim.RAdam(model.parameters(), lr=2e-3))
    task = Task(100)
    for epoch in range(4):
        loss = fit(model, opt, task, 50)
        x, y = task.batch(256)
        with torch.no_grad():
            held = nn.functional.mse_loss(ema.model_for_eval()(x), y)
        print(epoch, loss, held.item())


if __name__ == "__main__":
    main()
