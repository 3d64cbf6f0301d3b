"""Persistent input staging of a model runner."""
import numpy as np
import torch
from torch import nn
from contextlib import contextmanager


class CpuGpuBuffer:
    def __init__(self, *shape, dtype):
        self.cpu = torch.zeros(*shape, dtype=dtype, pin_memory=True)
        self.np = self.cpu.numpy()
        self.gpu = torch.zeros(*shape, dtype=dtype, device="cuda")

    def to_gpu(self, n: int) -> torch.Tensor:
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class ModelRunner:
    def __init__(self, model: nn.Module, max_tokens=256):
        self.model = model.cuda().eval()
        self.ids = CpuGpuBuffer(max_tokens, dtype=torch.int64)
        self.positions = CpuGpuBuffer(max_tokens, dtype=torch.int64)
        self.prepared = torch.cuda.Event()
        self.sampled_host = torch.empty(max_tokens, dtype=torch.int64, pin_memory=True)
        self.sampled = torch.cuda.Event()

    @contextmanager
    def _preparing(self):
        self.prepared.synchronize()
        try:
            yield
        finally:
            self.prepared.record()

    @torch.inference_mode()
    def execute(self, tokens: np.ndarray, start: int) -> list:
        n = len(tokens)
        with self._preparing():
            self.ids.np[:n] = tokens
            self.positions.np[:n] = np.arange(start, start + n)
            ids, pos = self.ids.to_gpu(n), self.positions.to_gpu(n)
        logits = self.model(ids) + pos.unsqueeze(1) * 1e-4
        picked = logits.argmax(-1)
        self.sampled_host[:n].copy_(picked, non_blocking=True)
        self.sampled.record()
        self.sampled.synchronize()
        return self.sampled_host[:n].tolist()

    @torch.inference_mode()
    def prefill(self, chunks):
        state = torch.zeros((), device="cuda")
        start = 0
        for chunk in chunks:
            with self._preparing():
                self.ids.np[: len(chunk)] = chunk
                ids = self.ids.to_gpu(len(chunk))
            state += self.model(ids).sum()
            start += len(chunk)
        return start, state


def main():
    runner = ModelRunner(nn.Sequential(nn.Embedding(1000, 64), nn.Linear(64, 1000)))
    rng = np.random.default_rng(0)
    start, state = runner.prefill([rng.integers(0, 1000, 200) for _ in range(20)])
    tokens = rng.integers(0, 1000, 8)
    for step in range(10):
        tokens = np.array(runner.execute(tokens, start + step))
    print(tokens, state.item())


if __name__ == "__main__":
    main()
