"""A copy that blocks if its source is on the host orders nothing of a source that is on a device."""

from __future__ import annotations

import pytest

from streamlint.api import check_source
from streamlint.finding import Confidence

OVERWRITTEN = """\
import torch


class Kept:
    def __init__(self, n: int):
        self.side = torch.cuda.Stream()
        self.kept = torch.zeros(n, device="cuda")

    def push(self, rows: torch.Tensor):
        total = rows * 2
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.kept.copy_(total)
        total.record_stream(self.side)
        {wait}
        total.add_(1)
        return total.sum()

    def finish(self):
        torch.cuda.current_stream().wait_stream(self.side)
        return self.kept.sum()
"""

DROPPED = """\
import torch


def gather(parts: list[torch.Tensor], n: int):
    side = torch.cuda.Stream()
    full = torch.zeros(len(parts), n, device="cuda")
    for index, part in enumerate(parts):
        scaled = part.half()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            full[index].copy_(scaled)
        {wait}
        del scaled
    torch.cuda.current_stream().wait_stream(side)
    return full
"""


@pytest.mark.parametrize(
    ("text", "wait", "found"),
    [
        (OVERWRITTEN, "pass", ["SL102"]),
        (OVERWRITTEN, "torch.cuda.current_stream().wait_stream(self.side)", []),
        (DROPPED, "pass", ["SL401"]),
        (DROPPED, "scaled.record_stream(side)", []),
        (DROPPED, "torch.cuda.current_stream().wait_stream(side)", []),
    ],
)
def test_memory_of_a_device_is_used_until_its_copy_is_done(text: str, wait: str, found: list[str]) -> None:
    report = check_source(text.format(wait=wait), "kept.py", min_confidence=Confidence.LIKELY)
    assert sorted({one.code for one in report.findings}) == found


ANOTHERS = OVERWRITTEN.replace("self.kept.copy_(total)", "y = total + 1; self.kept.copy_(rows)")


def test_a_copy_of_other_memory_may_have_waited_for_all_of_it() -> None:
    """``rows`` may be on the host, and ``total`` on a device for all that is known here."""
    text = ANOTHERS.format(wait="pass").replace("rows * 2", "torch.ones(64, device='cuda')")
    report = check_source(text, "kept.py", min_confidence=Confidence.LIKELY)
    assert not [one for one in report.findings if one.code == "SL102"]
