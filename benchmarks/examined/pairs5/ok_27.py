"""Arena of device scratch blocks handed out by streams; a block returns through a retirement queue with events."""
from collections import defaultdict, deque
from contextlib import contextmanager
import torch


class ScratchArena:
    def __init__(self, device="cuda"):
        self.device = device
        self.free = defaultdict(list)
        self.retired = deque()

    def _sweep(self):
        still = deque()
        for event, size, block in self.retired:
            if event.query():
                self.free[size].append(block)
            else:
                still.append((event, size, block))
        self.retired = still

    def take(self, numel):
        self._sweep()
        size = 1 << (numel - 1).bit_length()
        if self.free[size]:
            return self.free[size].pop(), size
        block = torch.empty(size, device=self.device)
        torch.cuda.current_stream().synchronize()
        return block, size

    @contextmanager
    def scratch(self, *shape):
        numel = 1
        for s in shape:
            numel *= s
        block, size = self.take(numel)
        try:
            yield block[:numel].view(*shape)
        finally:
            event = torch.cuda.Event()
            event.record(torch.cuda.current_stream())
            self.retired.append((event, size, block))


class Correlator:
    def __init__(self, arena, n):
        self.arena = arena
        self.template = torch.randn(n, device="cuda")
        self.streams = [torch.cuda.Stream() for _ in range(4)]

    def run(self, signals):
        main = torch.cuda.current_stream()
        peaks = torch.zeros(len(signals), device="cuda")
        for i, sig in enumerate(signals):
            s = self.streams[i % len(self.streams)]
            s.wait_stream(main)
            with torch.cuda.stream(s):
                with self.arena.scratch(*sig.shape) as buf:
                    torch.mul(sig, self.template, out=buf)
                    buf.cumsum_(0)
                    peaks[i].copy_(buf.max())
        for s in self.streams:
            main.wait_stream(s)
        return peaks


def main():
    arena = ScratchArena()
    corr = Correlator(arena, 1 << 20)
    signals = [torch.randn(1 << 20, device="cuda") for _ in range(32)]
    for _ in range(10):
        peaks = corr.run(signals)
    print(peaks.max().item())


if __name__ == "__main__":
    main()
