"""Domain-decomposed wave equation: one stream per strip, two phases per step."""
import argparse

import torch


class Fence:
    """Separates the phases of a step for every worker stream."""

    def __init__(self, device, streams):
        self.device = device
        self.streams = streams
        self.event = torch.cuda.Event()

    def __call__(self):
        self.event.record(torch.cuda.default_stream(self.device))
        for s in self.streams:
            s.wait_event(self.event)


class Strip:
    def __init__(self, index, lo, hi, width, device):
        self.index, self.lo, self.hi = index, lo, hi
        self.stream = torch.cuda.Stream(device)
        self.prev = torch.zeros(hi - lo, width, device=device)
        self.lap = torch.zeros(hi - lo, width, device=device)


class Wave:
    def __init__(self, height, width, strips, c2, device):
        self.device = device
        self.c2 = c2
        self.u = torch.zeros(height + 2, width + 2, device=device)
        self.strips = []
        rows = height // strips
        for i in range(strips):
            lo = 1 + i * rows
            hi = lo + rows if i + 1 < strips else height + 1
            self.strips.append(Strip(i, lo, hi, width, device))
        self.fence = Fence(device, [s.stream for s in self.strips])

    def excite(self, y, x, amount):
        self.u[y:y + 3, x:x + 3] += amount
        torch.cuda.synchronize(self.device)

    def _laplacian(self, s):
        u, lo, hi = self.u, s.lo, s.hi
        torch.add(u[lo - 1:hi - 1, 1:-1], u[lo + 1:hi + 1, 1:-1], out=s.lap)
        s.lap.add_(u[lo:hi, :-2]).add_(u[lo:hi, 2:]).sub_(u[lo:hi, 1:-1], alpha=4.0)

    def _advance(self, s):
        cur = self.u[s.lo:s.hi, 1:-1]
        new = 2.0 * cur - s.prev + self.c2 * s.lap
        s.prev.copy_(cur)
        cur.copy_(new)

    def step(self):
        for s in self.strips:
            with torch.cuda.stream(s.stream):
                self._laplacian(s)
        self.fence()
        for s in self.strips:
            with torch.cuda.stream(s.stream):
                self._advance(s)
        self.fence()

    def energy(self):
        torch.cuda.synchronize(self.device)
        total = 0.0
        for s in self.strips:
            cur = self.u[s.lo:s.hi, 1:-1]
            total += float((cur - s.prev).square().sum())
        return total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=4096)
    ap.add_argument("--strips", type=int, default=4)
    ap.add_argument("--steps", type=int, default=1000)
    args = ap.parse_args()
    device = torch.device("cuda:0")
    sim = Wave(args.size, args.size, args.strips, 0.2, device)
    sim.excite(args.size // 2, args.size // 2, 1.0)
    for k in range(args.steps):
        sim.step()
        if k % 250 == 249:
            print(k + 1, sim.energy())


if __name__ == "__main__":
    main()
