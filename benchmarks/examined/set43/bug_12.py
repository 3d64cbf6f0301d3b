from dataclasses import dataclass
from typing import List, Optional

import torch
import torch.nn as nn


@dataclass
class StepOutput:
    pinned: torch.Tensor
    ready: torch.cuda.Event
    tokens: Optional[List[int]] = None

    def pythonize(self) -> List[int]:
        if self.tokens is None:
            self.ready.synchronize()
            self.tokens = self.pinned.tolist()
        return self.tokens


class DraftModel(nn.Module):
    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.body = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width)
        )

    def forward(self, ids):
        h = self.embed(ids)
        return (h + self.body(h)) @ self.embed.weight.t()


class MultiStepRunner:
    def __init__(self, batch: int, vocab: int, width: int):
        self.batch = batch
        self.vocab = vocab
        self.width = width
        self.device: Optional[torch.device] = None
        self.model: Optional[DraftModel] = None
        self.ids: Optional[torch.Tensor] = None
        self._copy_stream = torch.cuda.Stream()
        self.outputs: List[StepOutput] = []

    def init_device(self, index: int):
        self.device = torch.device("cuda", index)
        torch.cuda.set_device(self.device)

    def load_model(self):
        self.model = DraftModel(self.vocab, self.width).to(self.device).eval()
        self.ids = torch.zeros(self.batch, dtype=torch.long, device=self.device)

    def _copy_out(self, sampled: torch.Tensor) -> StepOutput:
        pinned = torch.empty(sampled.shape, dtype=sampled.dtype, pin_memory=True)
        ready = torch.cuda.Event()
        self._copy_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._copy_stream):
            pinned.copy_(sampled, non_blocking=True)
            ready.record(self._copy_stream)
        return StepOutput(pinned, ready)

    def execute_step(self):
        logits = self.model(self.ids)
        sampled = logits.argmax(-1)
        self.ids.copy_(sampled)
        self.outputs.append(self._copy_out(sampled))

    def harvest(self, keep: int) -> List[List[int]]:
        rows = []
        while len(self.outputs) > keep:
            rows.append(self.outputs.pop(0).pythonize())
        return rows


class Worker:
    def __init__(self, rank: int, batch: int = 32):
        self.runner = MultiStepRunner(batch, vocab=65536, width=1024)
        self.rank = rank

    def startup(self):
        self.runner.init_device(self.rank)
        self.runner.load_model()

    @torch.inference_mode()
    def run(self, steps: int) -> List[List[int]]:
        rows: List[List[int]] = []
        for _ in range(steps):
            self.runner.execute_step()
            rows.extend(self.runner.harvest(keep=1))
        rows.extend(self.runner.harvest(keep=0))
        return rows


def main():
    assert torch.cuda.device_count() > 1
    worker = Worker(rank=1)
    worker.startup()
    rows = worker.run(64)
    print(len(rows), rows[-1][:8])


if __name__ == "__main__":
    main()
