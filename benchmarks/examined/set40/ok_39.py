"""Jacobi relaxation over strips, one stream per strip, with a sweep barrier."""
import torch


class Barrier:
    def __init__(self, device, streams):
        self.hub = torch.cuda.Stream(device)
        self.streams = streams
        self.event = torch.cuda.Event()

    def __call__(self):
        for s in self.streams:
            self.event.record(s)
            self.hub.wait_event(self.event)
        self.event.record(self.hub)
        for s in self.streams:
            s.wait_event(self.event)


class Strip:
    def __init__(self, lo, hi, width, device):
        self.lo, self.hi = lo, hi
        self.stream = torch.cuda.Stream(device)
        self.work = torch.empty(hi - lo, width, device=device)


class Poisson:
    def __init__(self, n, strips, device):
        self.device = device
        self.n = n
        self.u = torch.zeros(n + 2, n + 2, device=device)
        self.v = torch.zeros(n + 2, n + 2, device=device)
        self.f = torch.zeros(n + 2, n + 2, device=device)
        rows = n // strips
        self.strips = [Strip(1 + i * rows, 1 + (i + 1) * rows, n, device) for i in range(strips)]
        self.barrier = Barrier(device, [s.stream for s in self.strips])

    def source(self, y, x, value):
        self.f[y, x] = value

    def _relax(self, s, src, dst):
        lo, hi = s.lo, s.hi
        w = s.work
        torch.add(src[lo - 1:hi - 1, 1:-1], src[lo + 1:hi + 1, 1:-1], out=w)
        w.add_(src[lo:hi, :-2]).add_(src[lo:hi, 2:]).add_(self.f[lo:hi, 1:-1])
        torch.mul(w, 0.25, out=dst[lo:hi, 1:-1])

    def solve(self, sweeps):
        main = torch.cuda.current_stream(self.device)
        for s in self.strips:
            s.stream.wait_stream(main)
        src, dst = self.u, self.v
        for _ in range(sweeps):
            for s in self.strips:
                with torch.cuda.stream(s.stream):
                    self._relax(s, src, dst)
            self.barrier()
            src, dst = dst, src
        for s in self.strips:
            main.wait_stream(s.stream)
        self.u, self.v = src, dst

    def residual(self):
        u = self.u
        r = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
             - 4.0 * u[1:-1, 1:-1] + self.f[1:-1, 1:-1])
        return float(r.abs().max())


def main(n=2048, strips=4, rounds=5):
    device = torch.device("cuda:0")
    p = Poisson(n, strips, device)
    p.source(n // 3, n // 3, 1.0)
    p.source(2 * n // 3, n // 2, -1.0)
    for k in range(rounds):
        p.solve(40)
        print("round", k, "residual", p.residual())


if __name__ == "__main__":
    main()
