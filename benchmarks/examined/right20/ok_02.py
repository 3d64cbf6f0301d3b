import threading

import torch


class Relaxation:
    """Jacobi sweeps over a plate; each thread owns a band of rows."""

    def __init__(self, height, width, bands):
        self.height, self.width, self.bands = height, width, bands
        self.a = torch.rand(height, width, device="cuda")
        self.b = self.a.clone()
        self.residual = torch.zeros(bands, device="cuda")
        self.barrier = threading.Barrier(bands)
        self.sweeps_done = [0] * bands
        torch.cuda.synchronize()

    def band(self, i):
        step = (self.height - 2) // self.bands
        lo = 1 + i * step
        hi = self.height - 1 if i == self.bands - 1 else lo + step
        return lo, hi

    def work(self, index, limit, tol):
        stream = torch.cuda.Stream()
        lo, hi = self.band(index)
        src, dst = self.a, self.b
        with torch.cuda.stream(stream):
            for sweep in range(limit):
                inner = src[lo - 1 : hi - 1, 1:-1] + src[lo + 1 : hi + 1, 1:-1]
                inner += src[lo:hi, :-2]
                inner += src[lo:hi, 2:]
                inner *= 0.25
                delta = (inner - src[lo:hi, 1:-1]).abs().max()
                dst[lo:hi, 1:-1].copy_(inner)
                self.residual[index].copy_(delta)
                stream.synchronize()
                self.barrier.wait()
                worst = self.residual.max().item()
                self.sweeps_done[index] = sweep + 1
                src, dst = dst, src
                self.barrier.wait()
                if worst < tol:
                    break

    def solve(self, limit=500, tol=1e-4):
        crew = [
            threading.Thread(target=self.work, args=(i, limit, tol), name=f"band-{i}")
            for i in range(self.bands)
        ]
        for t in crew:
            t.start()
        for t in crew:
            t.join()
        final = self.b if self.sweeps_done[0] % 2 else self.a
        return final.mean().item(), self.sweeps_done[0]


if __name__ == "__main__":
    mean, sweeps = Relaxation(2050, 1024, 4).solve()
    print(f"{sweeps} sweeps, mean {mean:.5f}")
