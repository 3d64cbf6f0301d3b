import threading
import time

import torch


class Progress:
    def __init__(self, parts):
        self.level = [0] * parts

    def raise_to(self, part, level):
        self.level[part] = level

    def spin(self, part, level):
        while self.level[part] < level:
            time.sleep(0.0002)


class Wavefront:
    """Blocks of a triangular solve; block row i needs x[j] of all rows before it."""

    def __init__(self, blocks, size):
        n = blocks * size
        self.blocks, self.size = blocks, size
        self.mat = torch.tril(torch.randn(n, n, device="cuda") * 0.05)
        self.mat.diagonal().fill_(1.5)
        self.rhs = torch.randn(n, 1, device="cuda")
        self.x = torch.zeros(n, 1, device="cuda")
        self.progress = Progress(blocks)
        torch.cuda.current_stream().synchronize()

    def rows(self, i):
        return slice(i * self.size, (i + 1) * self.size)

    def _solve_row(self, i):
        stream = torch.cuda.Stream()
        mine = self.rows(i)
        with torch.cuda.stream(stream):
            r = self.rhs[mine].clone()
            for j in range(i):
                self.progress.spin(j, 1)
                other = self.rows(j)
                r.sub_(self.mat[mine, other] @ self.x[other])
            piece = torch.linalg.solve_triangular(self.mat[mine, mine], r, upper=False)
            self.x[mine].copy_(piece)
        stream.synchronize()
        self.progress.raise_to(i, 1)

    def solve(self):
        crew = [threading.Thread(target=self._solve_row, args=(i,)) for i in range(1, self.blocks)]
        for t in crew:
            t.start()
        self._solve_row(0)
        for i in range(self.blocks):
            self.progress.spin(i, 1)
        gap = (self.mat @ self.x - self.rhs).abs().max()
        for t in crew:
            t.join()
        return gap.item()


def main():
    for blocks in (1, 4, 8):
        print(blocks, Wavefront(blocks, 256).solve())


if __name__ == "__main__":
    main()
