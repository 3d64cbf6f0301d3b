"""Draft and target models on their own streams."""
from dataclasses import dataclass, field

import torch
from torch import nn


def _event():
    return torch.cuda.Event()


@dataclass
class Lane:
    model: nn.Module
    stream: torch.cuda.Stream = field(default_factory=torch.cuda.Stream)
    done: torch.cuda.Event = field(default_factory=_event)

    def after(self, other: "Lane"):
        self.stream.wait_event(other.done)
        return self

    def __enter__(self):
        self._ctx = torch.cuda.stream(self.stream)
        self._ctx.__enter__()
        return self

    def __exit__(self, *exc):
        self.done.record(self.stream)
        return self._ctx.__exit__(*exc)


class Speculator:
    def __init__(self, draft: nn.Module, target: nn.Module, k: int, batch: int):
        self.draft, self.target = Lane(draft), Lane(target)
        self.proposal = torch.empty(batch, k, dtype=torch.long, device="cuda")
        self.accepted = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.last = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.k = k
        torch.cuda.synchronize()

    def round(self):
        with self.draft.after(self.target) as lane:
            tok = self.last
            for i in range(self.k):
                tok = lane.model(tok).argmax(-1)
                self.proposal[:, i].copy_(tok)
        with self.target.after(self.draft) as lane:
            truth = lane.model(self.proposal).argmax(-1)
            match = (truth == self.proposal).long().cumprod(1)
            self.accepted.add_(match.sum(1))
            self.last.copy_(truth[:, -1])

    def report(self) -> list:
        torch.cuda.current_stream().wait_event(self.target.done)
        return self.accepted.tolist()


def lm(width):
    return nn.Sequential(nn.Embedding(256, width), nn.Linear(width, 256)).cuda().eval()


@torch.inference_mode()
def main():
    spec = Speculator(lm(32), lm(256), k=4, batch=8)
    for _ in range(20):
        spec.round()
    print(spec.report())


if __name__ == "__main__":
    main()
