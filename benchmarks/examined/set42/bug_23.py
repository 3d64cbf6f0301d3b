"""Input batch staging for a token-level model runner."""
import argparse
from typing import List

import numpy as np
import torch


class CpuGpuBuffer:
    def __init__(self, n: int, dtype, device):
        self.cpu = torch.zeros(n, dtype=dtype, pin_memory=True)
        self.np = self.cpu.numpy()
        self.gpu = torch.zeros(n, dtype=dtype, device=device)

    def copy_to_gpu(self, n: int) -> torch.Tensor:
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class InputBuffers:
    def __init__(self, max_tokens: int, max_reqs: int, device):
        self.input_ids = CpuGpuBuffer(max_tokens, torch.int64, device)
        self.positions = CpuGpuBuffer(max_tokens, torch.int64, device)
        self.query_start = CpuGpuBuffer(max_reqs + 1, torch.int32, device)


class Runner:
    def __init__(self, vocab: int, dim: int, device: str = "cuda"):
        self.device = device
        self.buffers = InputBuffers(8192, 256, device)
        self.embed = torch.randn(vocab, dim, device=device)
        self.rope = torch.randn(8192, dim, device=device)
        self.w = torch.randn(dim, dim, device=device) / dim ** 0.5
        self.sampled: List[torch.Tensor] = []

    def _prepare(self, schedule) -> int:
        lens = np.array([len(ids) for ids, _ in schedule], dtype=np.int32)
        total = int(lens.sum())
        bufs = self.buffers
        bufs.input_ids.np[:total] = np.concatenate([ids for ids, _ in schedule])
        bufs.positions.np[:total] = np.concatenate(
            [np.arange(start, start + len(ids)) for ids, start in schedule]
        )
        bufs.query_start.np[0] = 0
        np.cumsum(lens, out=bufs.query_start.np[1 : len(lens) + 1])
        bufs.input_ids.copy_to_gpu(total)
        bufs.positions.copy_to_gpu(total)
        bufs.query_start.copy_to_gpu(len(lens) + 1)
        return total

    @torch.inference_mode()
    def execute(self, schedule):
        total = self._prepare(schedule)
        bufs = self.buffers
        h = self.embed[bufs.input_ids.gpu[:total]] + self.rope[bufs.positions.gpu[:total]]
        for _ in range(16):
            h = torch.relu(h @ self.w)
        last = bufs.query_start.gpu[1 : len(schedule) + 1].long() - 1
        ids = (h[last] @ self.embed.T).argmax(-1)
        out = torch.empty(ids.shape, dtype=ids.dtype, pin_memory=True)
        out.copy_(ids, non_blocking=True)
        ev = torch.cuda.Event()
        ev.record()
        return out, ev


def make_schedule(rng, step: int):
    n = int(rng.integers(8, 64))
    return [(rng.integers(0, 32000, size=int(rng.integers(1, 96))), step) for _ in range(n)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    runner = Runner(32000, 1024)
    previous = None
    emitted = 0
    for step in range(args.steps):
        current = runner.execute(make_schedule(rng, step))
        if previous is not None:
            tokens, ev = previous
            ev.synchronize()
            emitted += len(tokens.tolist())
        previous = current
    tokens, ev = previous
    ev.synchronize()
    emitted += len(tokens.tolist())
    print("tokens", emitted)


if __name__ == "__main__":
    main()
