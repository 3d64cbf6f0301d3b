"""Diffusion training with an averaged copy of the weights, kept up to date on its own stream."""
import copy

import torch
import torch.nn as nn


class AveragedWeights:
    def __init__(self, model, optimizer, decay=0.9999):
        self.decay = decay
        self.source = [p for p in model.parameters()]
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.shadow = [p for p in self.model.parameters()]
        self.stream = torch.cuda.Stream()
        self.updated = torch.cuda.Event()
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer, args, kwargs):
        torch.cuda.current_stream().wait_event(self.updated)

    @torch.no_grad()
    def _after_step(self, optimizer, args, kwargs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_lerp_(self.shadow, self.source, 1.0 - self.decay)
            self.updated.record(self.stream)

    def save(self, path):
        self.updated.synchronize()
        torch.save(self.model.state_dict(), path)


class Denoiser(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.mid = nn.Sequential(*[nn.Conv2d(width, width, 3, padding=1) for _ in range(8)])
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        h = torch.nn.functional.silu(self.inp(x) + t.view(-1, 1, 1, 1))
        return self.out(self.mid(h))


def main():
    model = Denoiser().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    averaged = AveragedWeights(model, optimizer)
    for step in range(1, 5001):
        images = torch.rand(32, 3, 64, 64, device="cuda")
        noise = torch.randn_like(images)
        t = torch.rand(32, device="cuda")
        mixed = torch.lerp(images, noise, t.view(-1, 1, 1, 1))
        loss = (model(mixed, t) - noise).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 1000 == 0:
            averaged.save(f"ema_{step}.pt")


if __name__ == "__main__":
    main()
