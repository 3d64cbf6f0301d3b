"""Model runner with persistent host arrays for the batch metadata."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


class CpuGpuBuffer:
    def __init__(self, *shape, dtype, device):
        self.cpu = torch.zeros(*shape, dtype=dtype, pin_memory=True)
        self.np = self.cpu.numpy()
        self.gpu = torch.zeros(*shape, dtype=dtype, device=device)

    def copy_to_gpu(self, n):
        return self.gpu[:n].copy_(self.cpu[:n], non_blocking=True)


@dataclass
class AsyncOutput:
    tokens_cpu: torch.Tensor
    ready: torch.cuda.Event

    def get(self):
        self.ready.synchronize()
        return self.tokens_cpu.tolist()


class TinyModel(nn.Module):
    def __init__(self, vocab, hidden, device):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden, device=device)
        self.pos = nn.Embedding(65536, hidden, device=device)
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden, device=device) for _ in range(24))
        self.head = nn.Linear(hidden, vocab, device=device)

    def forward(self, ids, positions, last_index):
        x = self.embed(ids) + self.pos(positions)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x[last_index])


class ModelRunner:
    def __init__(self, max_reqs=256, max_tokens=8192, vocab=32000, hidden=2048, device="cuda"):
        self.device = torch.device(device)
        self.model = TinyModel(vocab, hidden, device).eval()
        self.query_start_loc = CpuGpuBuffer(max_reqs + 1, dtype=torch.int32, device=device)
        self.num_computed_tokens = CpuGpuBuffer(max_reqs, dtype=torch.int32, device=device)
        self.input_ids = torch.zeros(max_tokens, dtype=torch.int64, device=device)
        self.row_index = torch.arange(max_tokens, dtype=torch.int32, device=device)
        self.num_reqs = 0

    def add_request(self, computed=0):
        self.num_computed_tokens.np[self.num_reqs] = computed
        self.num_reqs += 1

    def _condense(self, finished):
        for row in sorted(finished, reverse=True):
            last = self.num_reqs - 1
            self.num_computed_tokens.np[row] = self.num_computed_tokens.np[last]
            self.num_reqs = last

    def _prepare_inputs(self, scheduled):
        n = self.num_reqs
        counts = np.asarray(scheduled[:n], dtype=np.int32)
        self.query_start_loc.np[0] = 0
        np.cumsum(counts, out=self.query_start_loc.np[1:n + 1])
        total = int(counts.sum())

        starts = self.query_start_loc.copy_to_gpu(n + 1)
        computed = self.num_computed_tokens.copy_to_gpu(n)

        rows = self.row_index[:total]
        req = torch.bucketize(rows, starts[1:], right=True)
        positions = computed[req] + rows - starts[req]
        last_index = starts[1:] - 1
        self.num_computed_tokens.np[:n] += counts
        return self.input_ids[:total], positions.long(), last_index.long()

    @torch.inference_mode()
    def execute_model(self, scheduled, finished=()):
        self._condense(finished)
        ids, positions, last_index = self._prepare_inputs(scheduled)
        sampled = self.model(ids, positions, last_index).argmax(dim=-1)
        tokens_cpu = torch.empty(sampled.shape, dtype=sampled.dtype, pin_memory=True)
        tokens_cpu.copy_(sampled, non_blocking=True)
        ready = torch.cuda.Event()
        ready.record()
        return AsyncOutput(tokens_cpu, ready)


def engine_loop(runner, schedules):
    outputs, pending = [], None
    for scheduled, finished in schedules:
        current = runner.execute_model(scheduled, finished)
        if pending is not None:
            outputs.append(pending.get())
        pending = current
    if pending is not None:
        outputs.append(pending.get())
    return outputs


if __name__ == "__main__":
    r = ModelRunner()
    for _ in range(64):
        r.add_request()
    plan = [([64] * 64, ())] + [([1] * 64, (3,) if i % 5 == 0 else ()) for i in range(20)]
    print(len(engine_loop(r, plan)))
