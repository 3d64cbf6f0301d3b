"""Exponential moving average of the weights on its own stream."""
import torch
import torch.nn as nn


class WeightEma:
    def __init__(self, model, optimizer, decay=0.999):
        self.decay = decay
        self.params = list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.params]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.updated = torch.cuda.Event()
        self.updated.record(self.stream)
        optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, optimizer, args, kwargs):
        torch.cuda.current_stream().wait_event(self.updated)

    @torch.no_grad()
    def update(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, self.params, 1.0 - self.decay)
        self.updated.record(self.stream)

    @torch.no_grad()
    def copy_to(self, target):
        torch.cuda.current_stream().wait_event(self.updated)
        for dst, src in zip(target.parameters(), self.shadow):
            dst.copy_(src)


def build():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()


def main():
    model, averaged = build(), build()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ema = WeightEma(model, opt)
    loss_fn = nn.CrossEntropyLoss()
    for step in range(2000):
        x = torch.randn(128, 784, device="cuda")
        y = torch.randint(0, 10, (128,), device="cuda")
        loss = loss_fn(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update()
        if step % 500 == 499:
            ema.copy_to(averaged)
            with torch.no_grad():
                print(step, loss_fn(averaged(x), y).item())


if __name__ == "__main__":
    main()
