"""Optimizer states parked in pinned memory between steps."""
import torch
import torch.nn as nn


class CPUOffloadOptimizer:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.pinned = {}
        self._offload_done = None

    def _buffer(self, param, key, value):
        buf = self.pinned.get((param, key))
        if buf is None or buf.shape != value.shape:
            buf = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self.pinned[param, key] = buf
        return buf

    def _offload(self):
        for param, state in self.optimizer.state.items():
            for key in ("exp_avg", "exp_avg_sq"):
                buf = self._buffer(param, key, state[key])
                buf.copy_(state[key], non_blocking=True)
                state[key] = buf
        self._offload_done = torch.cuda.Event()
        self._offload_done.record()

    def _load(self):
        for param, state in self.optimizer.state.items():
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = state[key].to(param.device, non_blocking=True)

    def step(self):
        self._load()
        self.optimizer.step()
        self._offload()

    def zero_grad(self):
        self.optimizer.zero_grad()

    @property
    def state(self):
        if self._offload_done is not None:
            self._offload_done.synchronize()
            self._offload_done = None
        return self.optimizer.state

    def state_dict(self):
        return {i: {k: v.clone() for k, v in s.items()} for i, s in enumerate(self.state.values())}


def main():
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]).cuda()
    opt = CPUOffloadOptimizer(torch.optim.AdamW(model.parameters(), lr=1e-4))
    for step in range(200):
        x = torch.randn(32, 2048, device="cuda")
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        if step % 50 == 49:
            torch.save(opt.state_dict(), f"optim_{step}.pt")


if __name__ == "__main__":
    main()
