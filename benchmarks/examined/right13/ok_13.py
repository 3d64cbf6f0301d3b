"""Exponential moving average of weights, updated beside the next forward pass."""
import contextlib

import torch


class SideEMA:
    def __init__(self, model, optimizer, decay=0.999):
        self.decay = decay
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.device = self.params[0].device
        self.stream = torch.cuda.Stream(self.device)
        self.updated = torch.cuda.Event()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.shadow = [p.detach().clone() for p in self.params]
            self.updated.record()
        for p in self.params:
            p.detach().record_stream(self.stream)
        self._hooks = (
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        )

    def _join(self):
        torch.cuda.current_stream(self.device).wait_event(self.updated)

    def _before_step(self, optimizer, args, kwargs):
        self._join()

    @torch.no_grad()
    def _after_step(self, optimizer, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, self.params, 1.0 - self.decay)
            self.updated.record()

    @torch.no_grad()
    def load(self, values):
        self._join()
        for p, s, v in zip(self.params, self.shadow, values):
            p.copy_(v)
            s.copy_(v)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        self.updated.record(self.stream)

    @contextlib.contextmanager
    def swapped(self):
        self._join()
        with torch.no_grad():
            backup = [p.detach().clone() for p in self.params]
            torch._foreach_copy_(self.params, self.shadow)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self.params, backup)
            self.stream.wait_stream(torch.cuda.current_stream(self.device))
            self.updated.record(self.stream)

    def close(self):
        for h in self._hooks:
            h.remove()
        self._join()
        return [s.cpu() for s in self.shadow]


def train(model, batches, val_batch, lr=1e-3):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    ema = SideEMA(model, opt)
    scores = []
    for step, (x, y) in enumerate(batches):
        loss = torch.nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 100 == 99:
            with ema.swapped(), torch.no_grad():
                scores.append(torch.nn.functional.mse_loss(model(val_batch[0]), val_batch[1]).item())
    return ema.close(), scores
