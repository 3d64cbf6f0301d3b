"""Many requests on a pool of streams; an ExitStack brings them back together."""
from contextlib import ExitStack, contextmanager
from itertools import cycle

import torch


@contextmanager
def lane(stream: torch.cuda.Stream):
    base = torch.cuda.current_stream()
    stream.wait_stream(base)
    try:
        yield stream
    finally:
        base.wait_stream(stream)


class MultiHeadScorer:
    def __init__(self, heads: int, dim: int, streams: int = 4):
        self.weights = [torch.randn(dim, dim, device="cuda") / dim ** 0.5 for _ in range(heads)]
        self.scores = torch.zeros(heads, device="cuda")
        self.streams = [torch.cuda.Stream() for _ in range(streams)]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        with ExitStack() as stack:
            lanes = [stack.enter_context(lane(s)) for s in self.streams]
            for h, (w, s) in enumerate(zip(self.weights, cycle(lanes))):
                with torch.cuda.stream(s):
                    y = torch.tanh(x @ w)
                    self.scores[h].copy_(y.square().mean())
        return self.scores.softmax(0)


def main():
    scorer = MultiHeadScorer(heads=12, dim=512)
    x = torch.randn(256, 512, device="cuda")
    mix = torch.zeros(12, device="cuda")
    for step in range(25):
        mix += scorer(x)
        x = x + 0.01 * torch.randn_like(x)
    best = int(mix.argmax())
    print(best, mix[best].item())


if __name__ == "__main__":
    main()
