"""Bounded number of result copies in flight; the oldest is awaited before another is sent."""
from collections import deque
from typing import Iterable, Iterator, Tuple

import torch


def host_results(pairs: Iterable[Tuple[str, torch.Tensor]], depth: int = 3) -> Iterator[Tuple[str, list]]:
    """Yield (name, values) in order while up to `depth` copies are on their way."""
    stream = torch.cuda.Stream()
    waiting: deque = deque()

    def settle():
        name, src, dst, event = waiting.popleft()
        event.synchronize()
        return name, dst.tolist()

    for name, src in pairs:
        if len(waiting) == depth:
            yield settle()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            dst = torch.empty(src.shape, dtype=src.dtype, pin_memory=True)
            dst.copy_(src, non_blocking=True)
            event = stream.record_event()
        waiting.append((name, src, dst, event))
    while waiting:
        yield settle()


def histograms(n: int) -> Iterator[Tuple[str, torch.Tensor]]:
    base = torch.randn(1 << 20, device="cuda")
    for i in range(n):
        base = torch.sin(base * 1.1 + i)
        yield f"h{i}", torch.histc(base, bins=16, min=-1, max=1)


def main():
    totals = {}
    for name, values in host_results(histograms(40)):
        totals[name] = max(values)
    print(len(totals), totals["h0"])


if __name__ == "__main__":
    main()
