import torch


class StreamScope:
    """``with`` block on another stream; entry and exit are joined with the enclosing stream."""

    _stack = []

    def __init__(self, stream: torch.cuda.Stream):
        self.stream = stream

    def __enter__(self):
        outer = torch.cuda.current_stream()
        self.stream.wait_stream(outer)
        ctx = torch.cuda.stream(self.stream)
        ctx.__enter__()
        StreamScope._stack.append((outer, ctx, []))
        return self

    def share(self, *tensors):
        outer, _, shared = StreamScope._stack[-1]
        shared.extend(tensors)
        return tensors[0] if len(tensors) == 1 else tensors

    def __exit__(self, *exc):
        outer, ctx, shared = StreamScope._stack.pop()
        ctx.__exit__(*exc)
        outer.wait_stream(self.stream)
        for t in shared:
            t.record_stream(outer)
        return False


class TwoLevelSolver:
    def __init__(self, n=1024):
        self.fine, self.coarse = torch.cuda.Stream(), torch.cuda.Stream()
        self.a = torch.eye(n, device="cuda") * 4 + torch.rand(n, n, device="cuda") / n
        self.restrict = torch.rand(n // 4, n, device="cuda") / n

    def smooth(self, x, b):
        with StreamScope(self.fine) as scope:
            for _ in range(3):
                x = x + 0.2 * (b - self.a @ x)
            r = b - self.a @ x
            with StreamScope(self.coarse) as inner:
                c = inner.share(self.restrict.t() @ (self.restrict @ r))
            x = scope.share(x + 0.1 * c)
        return x


@torch.no_grad()
def main():
    solver = TwoLevelSolver()
    b = torch.randn(1024, 8, device="cuda")
    x = torch.zeros_like(b)
    for it in range(10):
        x = solver.smooth(x, b)
        print(it, (b - solver.a @ x).norm().item())


if __name__ == "__main__":
    main()
