"""Exponential moving average of weights maintained beside the training stream."""
import contextlib
from typing import Dict

import torch
from torch import nn


class SideEMA:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, decay: float = 0.999):
        self.model = model
        self.decay = decay
        self.device = next(model.parameters()).device
        self.stream = torch.cuda.Stream(device=self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream), torch.no_grad():
            self.shadow = [p.detach().clone() for p in model.parameters()]
            for p in model.parameters():
                p.data.record_stream(self.stream)
        self.updated = torch.cuda.Event()
        self.updated.record(self.stream)
        optimizer.register_step_pre_hook(lambda opt, args, kwargs: self.fence())
        optimizer.register_step_post_hook(lambda opt, args, kwargs: self._update())

    def fence(self) -> None:
        torch.cuda.current_stream(self.device).wait_event(self.updated)

    def _read_shadow(self):
        current = torch.cuda.current_stream(self.device)
        current.wait_event(self.updated)
        for s in self.shadow:
            s.record_stream(current)
        return self.shadow

    @torch.no_grad()
    def _update(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        live = [p.detach() for p in self.model.parameters()]
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, live, 1.0 - self.decay)
            self.updated.record(self.stream)

    @torch.no_grad()
    def state_dict(self) -> Dict[str, torch.Tensor]:
        names = [n for n, _ in self.model.named_parameters()]
        copies = {n: s.clone() for n, s in zip(names, self._read_shadow())}
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        return copies

    @contextlib.contextmanager
    def swapped(self):
        """Evaluates with averaged weights; restores the live ones afterwards."""
        shadow = self._read_shadow()
        with torch.no_grad():
            backup = [p.detach().clone() for p in self.model.parameters()]
            for p, s in zip(self.model.parameters(), shadow):
                p.copy_(s)
        try:
            yield self.model
        finally:
            with torch.no_grad():
                for p, b in zip(self.model.parameters(), backup):
                    p.copy_(b)
            self.stream.wait_stream(torch.cuda.current_stream(self.device))
            self.updated.record(self.stream)


def train(model: nn.Module, optimizer, batches, validation, decay: float = 0.999) -> float:
    ema = SideEMA(model, optimizer, decay)
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    losses = []
    with ema.swapped() as averaged, torch.no_grad():
        for x, y in validation:
            losses.append(nn.functional.mse_loss(averaged(x), y))
    ema.fence()
    return torch.stack(losses).mean().item() if losses else float("nan")
