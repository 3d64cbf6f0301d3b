"""Exponential moving average of the weights, updated next to the following forward pass."""
import copy

import torch
from torch import nn


class AsyncEMA:
    def __init__(self, model, optimizer, decay=0.999):
        self.model = model
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self.finished = torch.cuda.Event()
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer, args, kwargs):
        torch.cuda.current_stream().wait_event(self.finished)

    @torch.no_grad()
    def _after_step(self, optimizer, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(list(self.shadow.parameters()),
                                 list(self.model.parameters()), 1 - self.decay)
            self.finished.record()

    def state_dict(self):
        torch.cuda.current_stream().wait_event(self.finished)
        return {k: v.cpu() for k, v in self.shadow.state_dict().items()}


def make_model(dim=1024):
    return nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim)).cuda()


def main():
    torch.manual_seed(0)
    model = make_model()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ema = AsyncEMA(model, opt)
    for step in range(200):
        x = torch.randn(256, 1024, device="cuda")
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 50 == 49:
            sd = ema.state_dict()
            print(step, loss.item(), sd["0.weight"].norm().item())


if __name__ == "__main__":
    main()
