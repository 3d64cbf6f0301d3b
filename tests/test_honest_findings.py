"""What is shown of findings that are not sure: the right subject, and nothing surer hidden behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlint.finding import Confidence, Finding, Severity, leading
from streamlint.run import engine
from streamlint.source import Span
from tests.test_tree import written

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SCALED = """\
import torch
from steps import find

class Scaled:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def run(self, other{annotation}):
        with torch.cuda.stream(self.stream):
            y = find("scale")(other)
        return y
"""


def subjects(root: Path, annotation: str) -> set[str]:
    files = written(root, {"run.py": SCALED.format(annotation=annotation)})
    report = engine.analyze(root, files, engine.Settings())
    return {one.message.split("`")[1] for one in report.findings if "is read" in one.message}


@pytest.mark.parametrize(
    "annotation", ["", ": Batch", ": Optional[Batch]", ": torch.Tensor | None", " = None"]
)
def test_an_unresolved_call_may_read_its_argument(tmp_path: Path, annotation: str) -> None:
    assert subjects(tmp_path, annotation) == {"other"}


@pytest.mark.parametrize(
    "annotation",
    [
        *(": float", ": int | None", ': "str"', ": Optional[bool]", ": Callable[[int], int]"),
        *(": typing.Optional[int]", ": torch.dtype", ": dist.ProcessGroup | None", ": float = 0.5"),
    ],
)
def test_numbers_and_the_like_are_not_read(tmp_path: Path, annotation: str) -> None:
    assert subjects(tmp_path, annotation) == set()


TESTED = """\
import torch

def is_zero(scale: torch.Tensor):
    {loop}
        {test}
            return False
    return True
"""
READ_AT_ONCE = 'if scale.any().to("cpu", non_blocking=True):'


@pytest.mark.parametrize("loop", ["if scale.numel():", "for _ in range(3):"])
def test_one_expression_that_copies_and_is_read_needs_no_earlier_pass(tmp_path: Path, loop: str) -> None:
    files = written(tmp_path, {"zero.py": TESTED.format(loop=loop, test=READ_AT_ONCE)})
    (found,) = (
        one for one in engine.analyze(tmp_path, files, engine.Settings()).findings if one.code == "SL201"
    )
    assert [note.message for note in found.related] == ["written on the current stream here"]


def finding(line: int, confidence: Confidence, *causes: Finding) -> Finding:
    return Finding(
        code="SL101",
        name="unordered-read",
        message="",
        help="",
        confidence=confidence,
        severity=Severity.ERROR,
        primary=Span("run.py", line, 0, line, 1),
        label="",
        function="run",
        follows=tuple(cause.pair for cause in causes),
    )


def lines(shown: Iterable[Finding]) -> dict[int, list[int]]:
    """Where the findings are that are shown, and where those that are told with them."""
    return {one.primary.line: [other.span.line for other in one.also] for one in shown}


def test_a_consequence_is_shown_if_its_cause_is_less_sure() -> None:
    cause = finding(1, Confidence.POSSIBLE)
    equal, surer = finding(2, Confidence.POSSIBLE, cause), finding(3, Confidence.LIKELY, cause)
    last = finding(4, Confidence.LIKELY, surer)
    assert lines(leading([cause, equal, surer, last])) == {1: [2], 3: [4]}
    assert lines(leading([equal, surer, last])) == {2: [], 3: [4]}
    assert lines(leading([equal, last])) == {2: [], 4: []}


def test_a_cause_may_stand_behind_its_consequence() -> None:
    first, second = finding(9, Confidence.LIKELY), finding(5, Confidence.LIKELY)
    middle, last = replace(second, follows=(first.pair,)), finding(1, Confidence.LIKELY, second)
    assert lines(leading([last, middle, first])) == {9: [1, 5]}
    each_other = replace(first, follows=(second.pair,))
    assert len(leading([each_other, middle])) == 1


def test_of_two_at_one_place_that_follow_from_each_other_one_is_shown() -> None:
    """Two writes before one read: the findings differ in their earlier place only."""
    first = replace(finding(9, Confidence.LIKELY), earlier=Span("run.py", 1, 0, 1, 1))
    second = replace(first, earlier=Span("run.py", 2, 0, 2, 1), follows=(first.pair,))
    assert len(leading([replace(first, follows=(second.pair,)), second])) == 1


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(Confidence), st.sets(st.integers(0, 7), max_size=3)),
        min_size=1,
        max_size=8,
    )
)
def test_no_finding_is_lost_without_one_as_sure_in_its_place(
    told: list[tuple[int, Confidence, set[int]]],
) -> None:
    plain = [
        replace(finding(line, sure), earlier=Span("run.py", 20 + number, 0, 20 + number, 1))
        for number, (line, sure, _) in enumerate(told)
    ]
    found = [
        replace(
            one,
            follows=tuple(plain[k].pair for k in sorted(causes) if k < len(plain) and plain[k] is not one),
        )
        for one, (_, _, causes) in zip(plain, told, strict=True)
    ]
    shown = {one.pair: one for one in leading(found)}
    by_pair = {one.pair: one for one in found}
    for one in found:
        reached, waiting = {one.pair}, [one]
        while waiting:
            new = [by_pair[pair] for pair in waiting.pop().follows if pair not in reached]
            reached |= {other.pair for other in new}
            waiting += new
        assert any(pair in shown and shown[pair].confidence.rank >= one.confidence.rank for pair in reached)
