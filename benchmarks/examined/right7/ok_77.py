"""Autotuner that times candidates and keeps the winner."""
import functools
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Key:
    rows: int
    cols: int


class Autotuner:
    def __init__(self, candidates: dict, reps=5):
        self.candidates, self.reps = candidates, reps
        self.best: dict[Key, str] = {}
        self.stream = torch.cuda.Stream()

    def _time(self, fn, x, out) -> float:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        fn(x, out)
        start.record()
        for _ in range(self.reps):
            fn(x, out)
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop)

    def _tune(self, x) -> str:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            out = torch.empty(x.shape[0], x.shape[0], device="cuda")
            times = {name: self._time(fn, x, out) for name, fn in self.candidates.items()}
        return min(times, key=times.get)

    def __call__(self, x):
        key = Key(*x.shape)
        if key not in self.best:
            self.best[key] = self._tune(x)
        out = torch.empty(x.shape[0], x.shape[0], device="cuda")
        self.candidates[self.best[key]](x, out)
        return out


def chunked(x, out, n):
    for xi, oi in zip(x.chunk(n), out.chunk(n)):
        torch.mm(xi, x.t(), out=oi)


def main():
    tuner = Autotuner({
        "whole": lambda x, out: torch.mm(x, x.t(), out=out),
        "four": functools.partial(chunked, n=4),
    })
    total = 0.0
    for rows in (256, 512, 256, 1024):
        total += tuner(torch.randn(rows, 128, device="cuda")).trace().item()
    print(total, {k.rows: v for k, v in tuner.best.items()})


if __name__ == "__main__":
    main()
