"""A program told differently gives the same findings, at the lines that these came from."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from benchmarks.rewrites import calls, classes, statements, streams, variables
from benchmarks.rewrites.__main__ import as_it_is, compared, file_subjects, seen, told
from benchmarks.rewrites.program import Program
from tests.expectations import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

FILES = [FIXTURES / "torch" / name for name in ("sl101_made_by_steps.py", "sl101_kept_in_namespaces.py")]
HOLD = (
    streams.exit_stack,
    streams.named_stream,
    streams.wait_by_event,
    streams.try_finally,
    statements.printing,
    statements.calling_through,
    statements.nested_function,
    calls.keywords,
    calls.by_lambda,
    calls.by_getattr,
    calls.from_import,
    classes.set_up,
    variables.inner_helper,
    variables.kept_in_dict,
    variables.kept_in_object,
    variables.results_in_tuple,
)
"""Rewrites that lose nothing and bring nothing up, by themselves and after each other."""

_DICE = random.Random(14)  # noqa: S311 - a sample, no secret
PAIRS = [tuple(_DICE.sample(HOLD, 2)) for _ in range(3)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_two_rewrites_after_each_other_keep_all_findings(file: Path) -> None:
    (subject,) = file_subjects([file])
    assert subject.wanted
    for pair in PAIRS:
        if (printed := told(file.read_text("utf-8"), pair)) is not None:
            other = [one for one in compared(subject, seen(*printed, file)) if one[0] != "found"]
            assert not other, [one.__name__ for one in pair]


def test_lines_are_followed() -> None:
    text = "def f(x):\n    y = g(\n        x,\n    )\n\n    return y\n"
    printed = told(text, (statements.printing,))
    assert printed is not None
    after, was = printed
    lines = after.splitlines()
    assert was[lines.index("    y = g(x)") + 1] == (2, 4)
    assert was[lines.index("    return y") + 1] == (6, 6)


def test_what_does_not_apply_is_left_out() -> None:
    assert told("def f(x):\n    return x\n", (streams.wait_by_event,)) is None


def test_what_a_decorator_may_compile_stays() -> None:
    program = Program.of("@wp.kernel\ndef f(x: int):\n    y = x\n    z = y\n")
    assert not variables.kept_in_dict(program)
    assert as_it_is(FILES[0]).sure
