"""A small task runner that derives ordering from declared accesses."""
import functools
from typing import Callable, Optional

import torch


class Resource:
    """A device tensor with the events of its last write and later reads."""

    def __init__(self, data: torch.Tensor):
        self.data = data
        self.written = torch.cuda.current_stream(data.device).record_event()
        self.read: list[torch.cuda.Event] = []


class TaskRunner:
    def __init__(self, lanes: int):
        self.streams = [torch.cuda.Stream() for _ in range(lanes)]
        self.cursor = 0

    def _lane(self) -> torch.cuda.Stream:
        self.cursor = (self.cursor + 1) % len(self.streams)
        return self.streams[self.cursor]

    def task(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def launch(*, reads: tuple[Resource, ...] = (), writes: tuple[Resource, ...] = (), stream: Optional[torch.cuda.Stream] = None):
            lane = stream or self._lane()
            for r in (*reads, *writes):
                lane.wait_event(r.written)
            for w in writes:
                for event in w.read:
                    lane.wait_event(event)
            with torch.cuda.stream(lane):
                fn(*[r.data for r in reads], *[w.data for w in writes])
                done = lane.record_event()
            for r in reads:
                r.read.append(done)
            for w in writes:
                w.written = done
                w.read.clear()

        return launch


runner = TaskRunner(lanes=3)


@runner.task
def gemm(a, b, c):
    torch.mm(a, b, out=c)


@runner.task
def normalise(x, y):
    y.copy_(x / x.norm(dim=1, keepdim=True))


@runner.task
def accumulate(x, total):
    total.add_(x)


def main(n: int = 512, rounds: int = 20):
    a = Resource(torch.randn(n, n, device="cuda"))
    b = Resource(torch.randn(n, n, device="cuda"))
    products = [Resource(torch.zeros(n, n, device="cuda")) for _ in range(2)]
    total = Resource(torch.zeros(n, n, device="cuda"))
    for k in range(rounds):
        p = products[k % 2]
        gemm(reads=(a, b), writes=(p,))
        accumulate(reads=(p,), writes=(total,))
        normalise(reads=(p,), writes=(a if k % 2 else b,))
    torch.cuda.current_stream().wait_event(total.written)
    print(total.data.abs().mean().item())
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
