import torch


class PowerIteration:
    """Leading eigenpairs by deflated power iteration on a private stream."""

    def __init__(self, matrix, tol=1e-5, max_iter=500):
        self.matrix = matrix
        self.tol = tol
        self.max_iter = max_iter
        self.stream = torch.cuda.Stream(matrix.device)

    def _iterate(self, a, v):
        last = 0.0
        for _ in range(self.max_iter):
            w = a @ v
            value = torch.dot(v, w).item()
            v = w / w.norm()
            if abs(value - last) <= self.tol * abs(value):
                break
            last = value
        return (v @ (a @ v)).item(), v

    def solve(self, k):
        self.stream.wait_stream(torch.cuda.current_stream())
        pairs = []
        with torch.cuda.stream(self.stream):
            a = self.matrix.clone()
            for _ in range(k):
                v = torch.ones(a.shape[0], device=a.device)
                value, v = self._iterate(a, v / v.norm())
                a -= value * torch.outer(v, v)
                pairs.append((value, v.cpu()))
        return pairs


def main():
    gen = torch.Generator(device="cuda").manual_seed(3)
    base = torch.randn(1024, 1024, device="cuda", generator=gen)
    matrix = base @ base.t() / 1024
    solver = PowerIteration(matrix)
    for round_ in range(5):
        pairs = solver.solve(4)
        print(round_, [round(v, 4) for v, _ in pairs])
        value, vec = pairs[0]
        vec = vec.cuda()
        matrix -= 0.5 * value * torch.outer(vec, vec)


if __name__ == "__main__":
    main()
