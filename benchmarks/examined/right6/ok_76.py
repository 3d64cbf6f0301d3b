import math

import torch
from numba import cuda


@cuda.jit
def soft_threshold(x, lam, out):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        v = x[i, j]
        m = abs(v) - lam[j]
        if m < 0:
            m = 0.0
        out[i, j] = math.copysign(m, v)


def torch_lane(tensor):
    return cuda.external_stream(torch.cuda.current_stream(tensor.device).cuda_stream)


def shrink(x, lam):
    out = torch.empty_like(x)
    grid = (math.ceil(x.shape[0] / 16), math.ceil(x.shape[1] / 16))
    soft_threshold[grid, (16, 16), torch_lane(x)](
        cuda.as_cuda_array(x), cuda.as_cuda_array(lam), cuda.as_cuda_array(out))
    return out


class Ista:
    """Sparse codes for several dictionaries, each on its own torch stream."""

    def __init__(self, dictionaries):
        self.dicts = dictionaries
        self.streams = [torch.cuda.Stream() for _ in dictionaries]

    def _solve(self, d, y, steps):
        lip = torch.linalg.matrix_norm(d, 2) ** 2
        lam = (0.1 / lip).expand(d.shape[1]).contiguous()
        z = torch.zeros(y.shape[0], d.shape[1], device=y.device)
        for _ in range(steps):
            z = shrink(z - ((z @ d.T - y) @ d) / lip, lam)
        return z

    def __call__(self, y, steps=40):
        caller = torch.cuda.current_stream()
        codes = []
        for d, s in zip(self.dicts, self.streams):
            s.wait_stream(caller)
            with torch.cuda.stream(s):
                codes.append(self._solve(d, y, steps).cpu())
        return codes


def main():
    dicts = [torch.nn.functional.normalize(torch.randn(32, 64, device="cuda"), dim=0)
             for _ in range(3)]
    solver = Ista(dicts)
    for _ in range(3):
        y = torch.randn(100, 32, device="cuda")
        print([int((c != 0).sum()) for c in solver(y)])


if __name__ == "__main__":
    main()
