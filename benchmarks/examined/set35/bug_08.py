"""Checks a compiled two-branch function against eager on user-managed streams."""
import argparse
from typing import Callable, Dict, NamedTuple

import torch


class Inputs(NamedTuple):
    x: torch.Tensor
    w1: torch.Tensor
    w2: torch.Tensor


class BranchedMatmul:
    """x @ w1 on a side stream and x @ w2 on the caller's stream, summed at the end."""

    def __init__(self, side: torch.cuda.Stream):
        self.side = side
        self.done = torch.cuda.Event()

    def __call__(self, inputs: Inputs) -> torch.Tensor:
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.side):
            left = torch.relu(inputs.x @ inputs.w1)
            self.done.record()
        right = torch.tanh(inputs.x @ inputs.w2)
        self.done.synchronize()
        left.record_stream(current)
        return left + right


def sequential(inputs: Inputs) -> torch.Tensor:
    return torch.relu(inputs.x @ inputs.w1) + torch.tanh(inputs.x @ inputs.w2)


def make_inputs(rows: int, hidden: int, seed: int) -> Inputs:
    gen = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(rows, hidden, device="cuda", generator=gen)
    w1 = torch.randn(hidden, hidden, device="cuda", generator=gen) / hidden ** 0.5
    w2 = torch.randn(hidden, hidden, device="cuda", generator=gen) / hidden ** 0.5
    return Inputs(x, w1, w2)


class Comparison:
    def __init__(self, rows: int, hidden: int):
        self.rows = rows
        self.hidden = hidden
        self.branched = BranchedMatmul(torch.cuda.Stream())
        self.compiled = torch.compile(sequential)

    def once(self, seed: int) -> Dict[str, float]:
        inputs = make_inputs(self.rows, self.hidden, seed)
        expected = self.branched(inputs)
        result = self.compiled(inputs)
        diff = (expected - result).abs()
        return {"max": diff.max().item(), "mean": diff.mean().item()}


def run(trials: int, rows: int, hidden: int, tolerance: float,
        report: Callable[[str], None] = print) -> int:
    comparison = Comparison(rows, hidden)
    failures = 0
    for seed in range(trials):
        stats = comparison.once(seed)
        if stats["max"] > tolerance:
            failures += 1
            report(f"seed {seed}: max {stats['max']:.4f} mean {stats['mean']:.6f}")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--tolerance", type=float, default=5e-2)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    failed = run(args.trials, args.rows, args.hidden, args.tolerance)
    print(f"{failed}/{args.trials} outside tolerance")


if __name__ == "__main__":
    main()
