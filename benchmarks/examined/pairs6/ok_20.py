"""Gradient clipping with the norm computed next to bookkeeping on the main stream."""
import torch
import torch.nn as nn


class LazyClip:
    def __init__(self, params, max_norm):
        self.params = list(params)
        self.max_norm = max_norm
        self.stream = torch.cuda.Stream()
        self._ready = torch.cuda.Event()
        self._coef = None

    def measure(self):
        grads = [p.grad for p in self.params]
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
            self._coef = (self.max_norm / (total + 1e-6)).clamp(max=1.0)
            self._ready.record()

    @property
    def coef(self):
        current = torch.cuda.current_stream()
        current.wait_event(self._ready)
        self._coef.record_stream(current)
        return self._coef

    def apply(self):
        torch._foreach_mul_([p.grad for p in self.params], self.coef)


class Meter:
    def __init__(self, names):
        self.values = {n: torch.zeros((), device="cuda") for n in names}

    def update(self, **kwargs):
        for name, value in kwargs.items():
            self.values[name].lerp_(value.detach(), 0.02)


def main():
    model = nn.LSTM(256, 1024, num_layers=3, batch_first=True).cuda()
    head = nn.Linear(1024, 256).cuda()
    params = list(model.parameters()) + list(head.parameters())
    optimizer = torch.optim.Adam(params, lr=1e-3)
    clip = LazyClip(params, max_norm=0.5)
    meter = Meter(["loss", "scale"])
    for step in range(1000):
        x = torch.randn(32, 200, 256, device="cuda")
        hidden, _ = model(x[:, :-1])
        loss = (head(hidden) - x[:, 1:]).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip.measure()
        meter.update(loss=loss, scale=hidden.abs().mean())
        clip.apply()
        optimizer.step()
    print({k: v.item() for k, v in meter.values.items()})


if __name__ == "__main__":
    main()
