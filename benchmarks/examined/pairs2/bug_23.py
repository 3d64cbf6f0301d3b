"""Chunked optimizer step with moments in host memory."""
import torch
import torch.nn as nn


class ChunkedOffloadAdam:
    MOMENTS = ("exp_avg", "exp_avg_sq")

    def __init__(self, chunks, lr, pin_memory=True):
        self.pin_memory = pin_memory
        self.optims = [torch.optim.AdamW(c.parameters(), lr=lr) for c in chunks]

    def _move_tensor(self, v, device):
        if device == "cpu":
            if self.pin_memory:
                dst = torch.empty_like(v, device="cpu", pin_memory=True)
                dst.copy_(v, non_blocking=True)
                return dst
            return v.to("cpu")
        return v.to(device, non_blocking=True)

    def _move(self, optim, device):
        for state in optim.state.values():
            for key in self.MOMENTS:
                state[key] = self._move_tensor(state[key], device)

    def step(self):
        for optim in self.optims:
            self._move(optim, "cuda")
            optim.step()
            self._move(optim, "cpu")

    def zero_grad(self):
        for optim in self.optims:
            optim.zero_grad()

    def state_dict(self):
        return [optim.state_dict() for optim in self.optims]


class Trainer:
    def __init__(self, depth=8, width=1024, save_every=25):
        self.model = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)]).cuda()
        self.optim = ChunkedOffloadAdam(list(self.model), lr=3e-4)
        self.width = width
        self.save_every = save_every

    def run(self, steps):
        for step in range(1, steps + 1):
            x = torch.randn(128, self.width, device="cuda")
            self.optim.zero_grad()
            self.model(x).square().mean().backward()
            self.optim.step()
            if step % self.save_every == 0:
                torch.save(self.optim.state_dict(), f"optim-{step:05d}.pt")


if __name__ == "__main__":
    Trainer().run(100)
