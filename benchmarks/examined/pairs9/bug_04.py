"""Input preparation of a vision-language model runner with asynchronous scheduling."""
import numpy as np
import torch
from torch import nn


class CpuGpuBuffer:
    def __init__(self, n, dtype, device):
        self.cpu = torch.zeros(n, dtype=dtype, pin_memory=True)
        self.gpu = torch.zeros(n, dtype=dtype, device=device)
        self.np = self.cpu.numpy()

    def copy_to_gpu(self, n):
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


class InputBatch:
    def __init__(self, max_tokens, device, copies=2):
        self.input_ids = [CpuGpuBuffer(max_tokens, torch.int64, device) for _ in range(copies)]
        self.fences = [torch.cuda.Event() for _ in range(copies)]
        self.is_mm_embed = torch.zeros(max_tokens, dtype=torch.bool, pin_memory=True)
        self.turn = 0

    def prepare(self, ids, mm_spans):
        self.turn = (self.turn + 1) % len(self.input_ids)
        buf, fence = self.input_ids[self.turn], self.fences[self.turn]
        fence.synchronize()
        n = len(ids)
        buf.np[:n] = ids
        tokens = buf.copy_to_gpu(n)
        fence.record()
        mask = self.is_mm_embed[:n]
        mask.fill_(False)
        for start, end in mm_spans:
            mask[start:end] = True
        return tokens, mask.to(tokens.device, non_blocking=True)


class Runner(nn.Module):
    def __init__(self, vocab=32000, dim=1024):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.image = nn.Parameter(torch.randn(dim))
        self.body = nn.Sequential(*[nn.Linear(dim, dim) for _ in range(24)])

    def forward(self, tokens, mask):
        x = torch.where(mask.unsqueeze(-1), self.image, self.embed(tokens))
        return self.body(x).mean()


@torch.inference_mode()
def main():
    rng = np.random.default_rng(0)
    runner = Runner().cuda()
    batch = InputBatch(8192, "cuda")
    outputs = []
    for step in range(64):
        n = int(rng.integers(1024, 8192))
        start = int(rng.integers(0, n - 600))
        tokens, mask = batch.prepare(rng.integers(0, 32000, n), [(start, start + 576)])
        outputs.append(runner(tokens, mask))
    print(torch.stack(outputs).cpu())


if __name__ == "__main__":
    main()
