"""What a base class out of sight does with an object that a method calls it for."""

import pytest

from streamlint import Confidence
from streamlint.api import check_source

BENCHMARK = """
import threading

import torch
from harness import Benchmark


class Plain:
    def settle(self):
        self.rounds = 0


class Overlapped({base}):
    def __init__(self):
        super().__init__()
        self.rows = None
        self.streams = None

    def setup(self):
        self.rows = [torch.randn(64, 64, device="cuda") for _ in range(4)]
        self.streams = [torch.cuda.Stream() for _ in range(4)]
        {call}

    def run(self):
        for stream, row in zip(self.streams, self.rows):
            with torch.cuda.stream(stream):
                row.mul_(2)
        for stream in self.streams:
            stream.synchronize()
"""

HELPER = """
import torch
from harness import Stage


class Scale(Stage):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()

    def scale(self, x: torch.Tensor):
        y = x * 2
        {before}
        with torch.cuda.stream(self.side):
            y.add_(1)
        torch.cuda.current_stream().wait_stream(self.side)
        return y
"""


def told(source: str) -> list[str]:
    report = check_source(source, "stage.py", min_confidence=Confidence.LIKELY)
    return [finding.code for finding in report.findings if finding.code == "SL101"]


def test_a_method_of_an_unseen_base_may_wait() -> None:
    assert not told(BENCHMARK.format(base="Benchmark", call="self._settle()"))
    assert not told(HELPER.format(before="self.fork()"))


@pytest.mark.parametrize(
    ("base", "call"),
    [
        ("Benchmark", "self.rounds = 4"),
        ("Benchmark", "self.rounds = self.rounds_of()"),
        ("Benchmark", "self.describe(rows=4)"),
        ("Plain", "self.settle()"),
        ("torch.nn.Module", "self.eval()"),
        ("threading.local", "self.settle()"),
    ],
)
def test_others_order_nothing(base: str, call: str) -> None:
    assert told(BENCHMARK.format(base=base, call=call))


def test_what_is_called_for_its_result_orders_nothing() -> None:
    assert told(HELPER.format(before="width = self.width()"))
