import copy

import torch
from torch import nn


class StreamEMA:
    """Exponential moving average updated off the main stream."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, decay: float = 0.999):
        self.decay = decay
        self.model = model
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.stream = torch.cuda.Stream()
        self._event = None
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer, args, kwargs):
        if self._event is not None:
            torch.cuda.current_stream().wait_event(self._event)

    @torch.no_grad()
    def _after_step(self, optimizer, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            src = list(self.model.parameters())
            dst = list(self.shadow.parameters())
            torch._foreach_lerp_(dst, src, 1.0 - self.decay)
            self._event = self.stream.record_event()

    def module(self) -> nn.Module:
        if self._event is not None:
            torch.cuda.current_stream().wait_event(self._event)
        return self.shadow


def main():
    model = nn.Sequential(nn.Linear(32, 512), nn.GELU(), nn.Linear(512, 32)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ema = StreamEMA(model, opt)
    probe = torch.randn(64, 32, device="cuda")
    for step in range(300):
        x = torch.randn(256, 32, device="cuda")
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 100 == 99:
            with torch.no_grad():
                print(step, loss.item(), (ema.module()(probe) - probe.roll(1, dims=1)).square().mean().item())


if __name__ == "__main__":
    main()
