"""Layers spread over the GPUs of one process; activations move with plain device copies."""
import torch
import torch.nn as nn


class Stage(nn.Module):
    def __init__(self, dim, depth, device):
        super().__init__()
        self.device = torch.device(device)
        self.net = nn.Sequential(
            *[m for _ in range(depth) for m in (nn.Linear(dim, dim), nn.GELU())], nn.LayerNorm(dim)
        ).to(self.device)

    def forward(self, x):
        with torch.cuda.device(self.device):
            return self.net(x.to(self.device, non_blocking=True))


class StageInput:
    """A fixed buffer on the target device, refilled for every micro batch."""

    def __init__(self, shape, device):
        self.buffer = torch.zeros(shape, device=device)

    def fill(self, activation):
        self.buffer.copy_(activation, non_blocking=True)
        return self.buffer


class Pipeline(nn.Module):
    def __init__(self, dim, depth_per_stage, rows):
        super().__init__()
        count = torch.cuda.device_count()
        self.stages = nn.ModuleList(Stage(dim, depth_per_stage, f"cuda:{i}") for i in range(count))
        self.inputs = [StageInput((rows, dim), f"cuda:{i}") for i in range(count)]

    @torch.no_grad()
    def forward(self, micro_batches):
        outputs = []
        for x in micro_batches:
            for stage, entry in zip(self.stages, self.inputs):
                x = stage(entry.fill(x))
            outputs.append(x)
        return torch.cat(outputs)


class Scorer:
    def __init__(self, dim=2048, rows=256):
        self.rows = rows
        self.pipeline = Pipeline(dim, 4, rows).eval()
        self.last = self.pipeline.stages[-1].device
        self.anchor = torch.randn(dim, device=self.last)

    @torch.no_grad()
    def score(self, batch):
        micro = batch.pin_memory().split(self.rows)
        features = self.pipeline(micro)
        with torch.cuda.device(self.last):
            scores = features @ self.anchor
        return scores.to("cpu")


def main():
    scorer = Scorer()
    totals = []
    for _ in range(16):
        totals.append(scorer.score(torch.randn(2048, 2048)).mean())
    print(float(torch.stack(totals).mean()))


if __name__ == "__main__":
    main()
