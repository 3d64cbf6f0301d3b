"""What a method does with what another one has set up is judged behind that: alone it has unknown objects."""

from __future__ import annotations

import pytest

from streamlint.api import check_source
from streamlint.finding import Confidence

SERVED = """\
import torch
import service


class Encoder(torch.nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n, device="cuda"))

    def forward(self, x):
        return x.float() - self.mean


class Server:
    def initialize(self, args):
        self.encoder = Encoder(int(args["size"]))
        self.side = torch.cuda.Stream()

    def execute(self, requests):
        answers = []
        for request in requests:
            page = torch.from_numpy(request.rows()).pin_memory()
            with torch.cuda.stream(self.side):
                rows = self.encoder(page.to("cuda", non_blocking=True))
            {wait}
            answers.append(service.respond(rows))
        return answers
"""

LOADED = """\
import torch


class Scale:
    def __init__(self, path):
        self.factor = torch.load(path).cuda()

    def apply(self, x: torch.Tensor):
        return x * self.factor


class Mixer:
    def __init__(self):
        self.scale = None
        self.side = torch.cuda.Stream()

    def load(self, path):
        self.scale = Scale(path)

    def mix(self, x: torch.Tensor):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            y = self.scale.apply(x)
        x.record_stream(self.side)
        {wait}
        y.record_stream(torch.cuda.current_stream())
        return (y + x).sum()
"""


@pytest.mark.parametrize("text", [SERVED, LOADED])
@pytest.mark.parametrize(
    ("wait", "found"), [("pass", ["SL101"]), ("torch.cuda.current_stream().wait_stream(self.side)", [])]
)
def test_what_a_method_needs_is_set_up_before(text: str, wait: str, found: list[str]) -> None:
    report = check_source(text.format(wait=wait), "served.py", min_confidence=Confidence.LIKELY)
    assert sorted({one.code for one in report.findings} & {"SL101"}) == found


AGAIN = """\
import torch


class Rows:
    def __init__(self, n):
        self.side = torch.cuda.Stream()
        self.rows = torch.zeros(n, device="cuda")

    def start(self, x: torch.Tensor):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.rows.copy_(x)

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.side)

    def step(self, x: torch.Tensor):
        self.start(x)
        return self.rows * 2
"""


def test_what_a_method_sets_itself_it_needs_from_nobody() -> None:
    """What ``step()`` leaves open after a ``start()`` of its own is found there, once."""
    report = check_source(AGAIN, "rows.py", min_confidence=Confidence.POSSIBLE)
    assert [one.primary.line for one in report.findings if one.code == "SL101"] == [19]
