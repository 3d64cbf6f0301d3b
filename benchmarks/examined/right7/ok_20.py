"""EMA weights updated beside training."""
import contextlib
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class EmaConfig:
    decay: float = 0.999
    overlap: bool = True


class EmaTracker:
    def __init__(self, model: nn.Module, opt: torch.optim.Optimizer, cfg: EmaConfig):
        self.cfg = cfg
        self.params = list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.params]
        self.stream = torch.cuda.Stream() if cfg.overlap else None
        opt.register_step_pre_hook(lambda *_: self.join())
        opt.register_step_post_hook(lambda *_: self.update())

    def _context(self):
        if self.stream is None:
            return contextlib.nullcontext()
        self.stream.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.stream)

    @torch.no_grad()
    def update(self):
        with self._context():
            torch._foreach_lerp_(self.shadow, [p.detach() for p in self.params], 1 - self.cfg.decay)

    def join(self):
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)

    @contextlib.contextmanager
    def swapped(self):
        self.join()
        live = [p.data for p in self.params]
        for p, s in zip(self.params, self.shadow):
            p.data = s
        try:
            yield
        finally:
            for p, d in zip(self.params, live):
                p.data = d


def train(cfg: EmaConfig):
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    opt = torch.optim.AdamW(model.parameters())
    ema = EmaTracker(model, opt, cfg)
    for step in range(50):
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        opt.step()
        opt.zero_grad()
        if step % 10 == 9:
            with ema.swapped(), torch.no_grad():
                print(model(torch.ones(4, 256, device="cuda")).mean().item())


if __name__ == "__main__":
    train(EmaConfig())
    train(EmaConfig(overlap=False))
