"""Token feeder: a ring of page-locked rows, one event per row, uploads on the model's stream."""
import numpy as np
import torch
from torch import nn


class Row:
    def __init__(self, width):
        self.host = torch.zeros(width, dtype=torch.int64, pin_memory=True)
        self.view = self.host.numpy()
        self.copied = torch.cuda.Event()


class RowRing:
    def __init__(self, slots, width, device):
        self.rows = [Row(width) for _ in range(slots)]
        self.device = torch.device(device)
        self.gpu = torch.zeros(width, dtype=torch.int64, device=self.device)
        self.turn = 0

    def write(self, values):
        row = self.rows[self.turn]
        self.turn = (self.turn + 1) % len(self.rows)
        row.copied.synchronize()
        n = len(values)
        row.view[:n] = values
        self.gpu[:n].copy_(row.host[:n], non_blocking=True)
        row.copied.record()
        return self.gpu[:n]


class TinyLM(nn.Module):
    def __init__(self, vocab, width, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, ids, positions):
        h = self.embed(ids) + positions.unsqueeze(-1).float().sin()
        for layer in self.layers:
            h = h + nn.functional.silu(layer(h))
        return (h @ self.embed.weight.t()).argmax(-1)


class Runner:
    def __init__(self, model, max_batch, device):
        self.model = model.to(device).eval()
        self.ids = RowRing(2, max_batch, device)
        self.positions = RowRing(2, max_batch, device)
        self.lengths = np.zeros(max_batch, dtype=np.int64)

    @torch.inference_mode()
    def step(self, drafted):
        n = len(drafted)
        ids = self.ids.write(drafted)
        positions = self.positions.write(self.lengths[:n])
        out = self.model(ids, positions)
        self.lengths[:n] += 1
        return out

    def run(self, schedule):
        picked = [self.step(drafted) for drafted in schedule]
        return [p.tolist() for p in picked]


def main(steps=128, batch=256, vocab=32000, device="cuda"):
    rng = np.random.default_rng(0)
    runner = Runner(TinyLM(vocab, 1024, 12), batch, device)
    schedule = [rng.integers(0, vocab, rng.integers(1, batch + 1)) for _ in range(steps)]
    return runner.run(schedule)


if __name__ == "__main__":
    print(len(main()))
