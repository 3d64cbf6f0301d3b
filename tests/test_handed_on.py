"""Who lets the current stream wait for what is handed out says where it is used: it is refilled too early."""

from __future__ import annotations

import pytest

from streamlint.api import check_source
from streamlint.finding import Confidence

YIELDED = """\
import torch


class Static:
    def __init__(self, loader, n: int):
        self.loader = loader
        self.stream = torch.cuda.Stream()
        self.page = torch.empty(n, device="cuda")

    def __iter__(self):
        for rows in self.loader:
            page = rows.pin_memory()
            {wait}
            with torch.cuda.stream(self.stream):
                self.page.copy_(page, non_blocking=True)
            {join}
            yield self.page
"""

RETURNED = """\
import torch


class Slots:
    def __init__(self, source, n: int):
        self.source = source
        self.stream = torch.cuda.Stream()
        self.slots = [torch.empty(n, device="cuda") for _ in range(2)]
        self.hosts = [torch.empty(n, pin_memory=True) for _ in range(2)]
        self.turn = 0

    def take(self):
        slot, host = self.slots[self.turn], self.hosts[self.turn]
        self.turn = 1 - self.turn
        self.stream.synchronize()
        self.source.read_into(host)
        {wait}
        with torch.cuda.stream(self.stream):
            slot.copy_(host, non_blocking=True)
        {join}
        return slot
"""
FORK = "self.stream.wait_stream(torch.cuda.current_stream())"
JOIN = "torch.cuda.current_stream().wait_stream(self.stream)"


@pytest.mark.parametrize("text", [YIELDED, RETURNED])
@pytest.mark.parametrize(
    ("wait", "join", "found"),
    [("pass", JOIN, True), (FORK, JOIN, False), ("torch.cuda.synchronize()", JOIN, False)],
)
def test_a_page_is_filled_again_while_its_consumer_uses_it(
    text: str, wait: str, join: str, found: bool
) -> None:
    report = check_source(text.format(wait=wait, join=join), "pages.py", min_confidence=Confidence.LIKELY)
    assert ("SL102" in {one.code for one in report.findings}) is found


@pytest.mark.parametrize("text", [YIELDED, RETURNED])
def test_who_waits_for_nothing_leaves_order_to_the_consumer(text: str) -> None:
    report = check_source(text.format(wait="pass", join="pass"), "pages.py", min_confidence=Confidence.LIKELY)
    assert "SL102" not in {one.code for one in report.findings}
