"""What is pending when a method begins: which of it the methods show that call it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamlint.interp.entries.runs import Entry
from streamlint.judging.judge import judge
from streamlint.judging.responsibility import callers_show
from streamlint.rules.base import Problem
from streamlint.source import Span
from streamlint.trace import Origin
from tests.traces import Program


@pytest.mark.parametrize(
    ("origin", "has_callers", "shown"),
    [
        (Origin.ARGUMENT, True, True),
        (Origin.ARGUMENT, False, False),
        # room = torch.empty_like(batch): who had the block before is known to the allocator only.
        (Origin.ALLOCATED, True, False),
    ],
)
def test_callers_show_what_of_an_argument_is_pending(origin: Origin, has_callers: bool, shown: bool) -> None:
    p = Program()
    x = p.buffer()
    p.buffers[x] = replace(p.buffers[x], origin=origin)
    write = p.launch(p.stream(), writes=x)
    read = p.launch(p.stream(), reads=x)
    entry = Entry("A.start", "m", lambda _: None, Span("m.py", 1, 0, 1, 1), has_callers=has_callers)
    problem = Problem(later=read, earlier=write, buffer=x, message="", label="", help="")
    assert callers_show(judge(p.trace()), problem, entry) is shown
