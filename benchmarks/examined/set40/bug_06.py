"""Speculative decoding runner for a recurrent model, shaped after a v1 GPU model runner."""
from collections import deque

import numpy as np
import torch
import torch.nn as nn


class MirroredBuffer:
    """Device tensor plus pinned host tensor plus numpy view of the latter."""

    def __init__(self, n, dtype):
        self.gpu = torch.zeros(n, dtype=dtype, device="cuda")
        self.cpu = torch.zeros(n, dtype=dtype, pin_memory=True)
        self.np = self.cpu.numpy()


class DraftHead(nn.Module):
    def __init__(self, vocab, dim, k):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.lm = nn.Linear(dim, vocab)
        self.k = k

    def forward(self, tok, h):
        outs = []
        for _ in range(self.k):
            h = self.cell(self.emb(tok), h)
            tok = self.lm(h).argmax(-1)
            outs.append(tok)
        return torch.stack(outs, 1), h


class SpecRunner:
    def __init__(self, vocab=8192, dim=1024, k=4, max_reqs=128, blocks=4096):
        self.k, self.dim = k, dim
        self.draft = DraftHead(vocab, dim, k).cuda().eval()
        self.target = DraftHead(vocab, dim, k).cuda().eval()
        self.num_accepted = MirroredBuffer(max_reqs, torch.int64)
        self.seq_lens = np.full(max_reqs, 16, dtype=np.int64)
        self.num_reqs = max_reqs
        self.state = torch.zeros(max_reqs, dim, device="cuda")
        self.last = torch.zeros(max_reqs, dtype=torch.int64, device="cuda")
        self.slot_table = torch.arange(blocks, device="cuda")
        self.first_step = True

    def _build_metadata(self):
        n = self.num_reqs
        if not self.first_step:
            self.seq_lens[:n] += self.num_accepted.np[:n]
        self.first_step = False
        slots = self.seq_lens[:n] % self.slot_table.numel()
        return {"max_len": int(self.seq_lens[:n].max()), "slots": torch.from_numpy(slots).cuda()}

    def _update_after_execute(self, proposed, verified):
        match = (proposed == verified).to(torch.int64)
        accepted = match.cumprod(dim=1).sum(dim=1) + 1
        n = self.num_reqs
        self.num_accepted.gpu[:n] = accepted
        self.num_accepted.cpu[:n].copy_(self.num_accepted.gpu[:n], non_blocking=True)
        keep = (accepted - 1).clamp(max=self.k - 1)
        self.last = verified.gather(1, keep[:, None]).squeeze(1)

    @torch.inference_mode()
    def execute_model(self):
        meta = self._build_metadata()
        rows = self.slot_table[meta["slots"]]
        bias = torch.sin(rows.float())[:, None]
        proposed, _ = self.draft(self.last, self.state + 0.01 * bias)
        verified, self.state = self.target(self.last, self.state)
        self._update_after_execute(proposed, verified)
        return verified


class Engine:
    def __init__(self, runner, depth=2):
        self.runner = runner
        self.queue = deque(maxlen=depth)

    def run(self, steps):
        for _ in range(steps):
            self.queue.append(self.runner.execute_model())
        torch.cuda.synchronize()
        return [t.cpu() for t in self.queue], self.runner.seq_lens.copy()


if __name__ == "__main__":
    torch.manual_seed(0)
    outs, lens = Engine(SpecRunner()).run(64)
    print("tail", outs[-1][0].tolist(), "lens", lens[:8])
