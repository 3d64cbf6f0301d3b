"""A conversion of type gives memory of its own, unless the tensor had that type already."""

from __future__ import annotations

import pytest

from streamlint.api import check_source
from streamlint.finding import Confidence

METHOD = """\
import torch


class Halves:
    def __init__(self, n: int):
        self.side = torch.cuda.Stream()
        self.kept = torch.zeros(n, dtype=torch.float16, device="cuda")

    def push(self, part: torch.Tensor):
        half = part{converted}.contiguous()
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.kept += half
        {keep}

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.side)
        return self.kept.sum()
"""

LOOP = """\
import torch


def send(comm, parts: list[torch.Tensor], full: torch.Tensor):
    side = torch.cuda.Stream()
    for part in parts:
        rows = part{converted}
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            full.add_(rows)
        {keep}
        del rows
    torch.cuda.current_stream().wait_stream(side)
"""


@pytest.mark.parametrize("text", [METHOD, LOOP])
@pytest.mark.parametrize(
    ("converted", "keep", "found"),
    [
        (".to(torch.float16)", "pass", True),
        (".half()", "pass", True),
        (".half()", "{name}.record_stream({side})", False),
        (".contiguous()", "pass", False),
    ],
)
def test_a_converted_tensor_is_dropped_while_it_is_used(
    text: str, converted: str, keep: str, found: bool
) -> None:
    """``part.half().contiguous()`` is ``part`` only if that is dense, and of that type, already."""
    kept = keep.format(
        name="half" if text is METHOD else "rows", side="self.side" if text is METHOD else "side"
    )
    report = check_source(
        text.format(converted=converted, keep=kept), "halves.py", min_confidence=Confidence.LIKELY
    )
    assert ("SL401" in {one.code for one in report.findings}) is found
