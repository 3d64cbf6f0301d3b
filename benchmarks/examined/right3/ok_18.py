"""Per-step model inputs staged through alternating pinned buffers."""
import numpy as np
import torch
from torch import nn


class CpuGpuBuffer:
    def __init__(self, size: int, dtype: torch.dtype, device: torch.device, copies: int = 2):
        self.gpu = torch.zeros(size, dtype=dtype, device=device)
        self._cpu = [torch.zeros(size, dtype=dtype, pin_memory=True) for _ in range(copies)]
        self._np = [t.numpy() for t in self._cpu]
        self._consumed: list[torch.cuda.Event | None] = [None] * copies
        self._turn = -1

    def next_np(self) -> np.ndarray:
        self._turn = (self._turn + 1) % len(self._cpu)
        event = self._consumed[self._turn]
        if event is not None:
            event.synchronize()
        return self._np[self._turn]

    def copy_to_gpu(self, n: int) -> torch.Tensor:
        view = self.gpu[:n]
        view.copy_(self._cpu[self._turn][:n], non_blocking=True)
        if self._consumed[self._turn] is None:
            self._consumed[self._turn] = torch.cuda.Event()
        self._consumed[self._turn].record()
        return view


class InputBatch:
    def __init__(self, max_tokens: int, device: torch.device):
        self.input_ids = CpuGpuBuffer(max_tokens, torch.int64, device)
        self.positions = CpuGpuBuffer(max_tokens, torch.int64, device)

    def prepare(self, requests: list[tuple[np.ndarray, int]]):
        ids, pos = self.input_ids.next_np(), self.positions.next_np()
        n = 0
        for tokens, start in requests:
            m = len(tokens)
            ids[n:n + m] = tokens
            pos[n:n + m] = np.arange(start, start + m)
            n += m
        return self.input_ids.copy_to_gpu(n), self.positions.copy_to_gpu(n)


class TinyLM(nn.Module):
    def __init__(self, vocab: int, dim: int, max_pos: int):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_pos, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, positions):
        return self.head(self.tok(ids) + self.pos(positions))


@torch.inference_mode()
def main():
    device = torch.device("cuda")
    model = TinyLM(1000, 256, 4096).to(device)
    batch = InputBatch(2048, device)
    rng = np.random.default_rng(0)
    acc = torch.zeros((), device=device)
    for step in range(200):
        requests = [(rng.integers(0, 1000, size=int(rng.integers(1, 64))), step) for _ in range(16)]
        ids, positions = batch.prepare(requests)
        acc += model(ids, positions).logsumexp(-1).mean()
    print(acc.item())


if __name__ == "__main__":
    main()
