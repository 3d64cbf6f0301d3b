"""Exponential moving average of weights kept off the training stream."""
import copy

import torch


class EMA:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.live = list(model.parameters())
        self.device = self.live[0].device
        self.stream = torch.cuda.Stream(self.device)
        self.shadow_model = copy.deepcopy(model).eval().requires_grad_(False)
        self.shadow = list(self.shadow_model.parameters())
        self.taken = torch.cuda.Event()
        self.read = torch.cuda.Event()
        for p in self.live + self.shadow:
            p.data.record_stream(self.stream)

    @torch.no_grad()
    def update(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        self.stream.wait_event(self.read)
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, [p.detach() for p in self.live], 1 - self.decay)
            self.taken.record()

    def guard(self, optimizer, args, kwargs):
        torch.cuda.current_stream(self.device).wait_event(self.taken)

    @torch.no_grad()
    def evaluate(self, x):
        here = torch.cuda.current_stream(self.device)
        here.wait_event(self.taken)
        here.wait_event(self.read)
        try:
            return self.shadow_model(x)
        finally:
            self.read.record(here)


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.ema = EMA(model)
        self.optimizer.register_step_pre_hook(self.ema.guard)

    def step(self, x, y, loss_fn):
        self.optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.ema.update()
        return loss.detach()

    def validate(self, batches, loss_fn):
        losses = [loss_fn(self.ema.evaluate(x), y) for x, y in batches]
        return torch.stack(losses).mean().item() if losses else float("nan")
