"""Iterative solver with its convergence test on another stream."""
import torch


class JacobiSolver:
    def __init__(self, matrix, tol=1e-5, check_every=8):
        self.device = matrix.device
        self.diag = matrix.diagonal().clone()
        self.rest = matrix - torch.diag(self.diag)
        self.tol = tol
        self.every = check_every
        self.probe = torch.cuda.Stream(self.device)
        self.flag = torch.zeros(1, dtype=torch.bool, pin_memory=True)

    def _launch_probe(self, old, new):
        self.probe.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.probe):
            small = (new - old).abs().amax() < self.tol
            self.flag.copy_(small.reshape(1), non_blocking=True)
            event = self.probe.record_event()
        old.record_stream(self.probe)
        new.record_stream(self.probe)
        return event

    def solve(self, b, limit=1000):
        x = torch.zeros_like(b)
        pending = None
        for step in range(limit):
            new = (b - self.rest @ x) / self.diag
            if pending is not None and pending.query():
                pending = None
                if bool(self.flag):
                    return new, step + 1
            if step % self.every == 0 and pending is None:
                pending = self._launch_probe(x, new)
            x = new
        if pending is not None:
            pending.synchronize()
        return x, limit

    def solve_many(self, columns):
        answers = []
        for b in columns:
            self.probe.synchronize()
            x, steps = self.solve(b)
            if steps == 1000:
                raise ArithmeticError("no convergence")
            answers.append(x)
        return torch.stack(answers, dim=1)


def demo(n=1024, columns=4):
    a = torch.rand(n, n, device="cuda") + n * torch.eye(n, device="cuda")
    b = torch.rand(columns, n, device="cuda")
    solver = JacobiSolver(a)
    try:
        return solver.solve_many(b)
    except ArithmeticError:
        return torch.linalg.solve(a, b.t())
