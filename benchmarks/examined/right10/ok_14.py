"""Three stages on three streams; each stage follows the one before it."""
from __future__ import annotations

import torch


class Stage:
    def __init__(self, name: str, fn, after: "Stage | None" = None):
        self.name = name
        self.fn = fn
        self.after = after
        self.stream = torch.cuda.Stream()
        self.mark = torch.cuda.Event()

    def enqueue(self, state: dict):
        if self.after is not None:
            self.stream.wait_event(self.after.mark)
        with torch.cuda.stream(self.stream):
            self.fn(state)
        self.mark.record(self.stream)


def decode(state):
    torch.cumsum(state["raw"], 0, out=state["decoded"])


def filter_(state):
    state["decoded"].mul_(0.5)
    torch.tanh(state["decoded"], out=state["filtered"])


def reduce_(state):
    state["total"].add_(state["filtered"].sum())
    state["peak"].copy_(torch.maximum(state["peak"], state["raw"].abs().amax()))


class Pipe:
    def __init__(self, n):
        self.state = {
            "raw": torch.randn(n, device="cuda"),
            "decoded": torch.empty(n, device="cuda"),
            "filtered": torch.empty(n, device="cuda"),
            "total": torch.zeros((), device="cuda"),
            "peak": torch.zeros((), device="cuda"),
        }
        a = Stage("decode", decode)
        b = Stage("filter", filter_, after=a)
        c = Stage("reduce", reduce_, after=b)
        self.stages = [a, b, c]

    def round(self):
        head, tail = self.stages[0], self.stages[-1]
        head.stream.wait_stream(torch.cuda.current_stream())
        for stage in self.stages:
            stage.enqueue(self.state)
        torch.cuda.current_stream().wait_event(tail.mark)


def main():
    pipe = Pipe(1 << 20)
    for i in range(32):
        pipe.round()
        pipe.state["raw"].copy_(pipe.state["raw"].roll(i + 1))
        pipe.state["raw"].neg_()
    print(pipe.state["total"].item(), pipe.state["peak"].item())


if __name__ == "__main__":
    main()
