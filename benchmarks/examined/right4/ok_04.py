import contextlib

import torch


class EmaShadow:
    def __init__(self, model, optimizer, decay=0.999):
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.shadow = [p.detach().clone() for p in self.params]
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self.updated = torch.cuda.Event()
        self._handles = [
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        ]
        self.stream.wait_stream(torch.cuda.current_stream())

    def _before_step(self, optimizer, args, kwargs):
        torch.cuda.current_stream().wait_event(self.updated)

    def _after_step(self, optimizer, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, [p.detach() for p in self.params], 1.0 - self.decay)
            self.updated.record()

    @contextlib.contextmanager
    def swapped(self):
        current = torch.cuda.current_stream()
        current.wait_event(self.updated)
        saved = [p.detach().clone() for p in self.params]
        with torch.no_grad():
            for p, s in zip(self.params, self.shadow):
                p.copy_(s)
        try:
            yield
        finally:
            with torch.no_grad():
                for p, s in zip(self.params, saved):
                    p.copy_(s)
            self.stream.wait_stream(current)

    def detach(self):
        for h in self._handles:
            h.remove()
        torch.cuda.current_stream().wait_event(self.updated)


def fit(model, loader, val_x):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    ema = EmaShadow(model, opt)
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 50 == 0:
            with ema.swapped(), torch.no_grad():
                print(i, model(val_x).argmax(-1).float().mean().item())
    ema.detach()
