"""Gradient clipping computed on a side stream while statistics are gathered."""
import functools

import torch
import torch.nn as nn


def on_side_stream(fn):
    @functools.wraps(fn)
    def wrapper(self, *args, **kwargs):
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            out = fn(self, *args, **kwargs)
        main.wait_stream(self.stream)
        return out
    return wrapper


class SideStreamClipper:
    def __init__(self, params, max_norm):
        self.params = list(params)
        self.max_norm = max_norm
        self.stream = torch.cuda.Stream()
        self.last_norm = torch.zeros((), device="cuda")
        self.stream.wait_stream(torch.cuda.current_stream())

    @on_side_stream
    @torch.no_grad()
    def clip(self):
        grads = [p.grad for p in self.params]
        norms = torch.stack(torch._foreach_norm(grads))
        torch.linalg.vector_norm(norms, out=self.last_norm)
        coef = (self.max_norm / (self.last_norm + 1e-6)).clamp(max=1.0)
        torch._foreach_mul_(grads, coef)


def main():
    model = nn.LSTM(256, 512, num_layers=2, batch_first=True).cuda()
    head = nn.Linear(512, 1).cuda()
    params = [*model.parameters(), *head.parameters()]
    opt = torch.optim.Adam(params, lr=1e-3)
    clipper = SideStreamClipper(params, max_norm=1.0)
    for step in range(200):
        x = torch.randn(32, 50, 256, device="cuda")
        out, _ = model(x)
        loss = head(out[:, -1]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        clipper.clip()
        opt.step()
        if step % 50 == 0:
            print(step, clipper.last_norm.item())


if __name__ == "__main__":
    main()
