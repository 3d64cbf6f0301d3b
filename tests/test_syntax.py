"""Newer and rarer syntax: what stands in it is followed; what this Python cannot read is a clear error."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import leading
from streamlint.run import engine
from tests.test_tree import written

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
import torch


def work():
    return torch.cuda.Stream(), torch.ones(1 << 20, device="cuda")

"""
"""Bodies below return ``y``, made on ``side`` by code in the syntax in question."""

FORMS: dict[str, tuple[tuple[int, int], str]] = {
    "function in a loop": (
        (3, 10),
        """\
def run():
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    for factor in (2, 3):
        def scaled(t, by=factor):
            with torch.cuda.stream(side):
                return t * by
        y = scaled(x)
    {join}
    return y.sum()
""",
    ),
    "closure kept from a loop": (
        (3, 10),
        """\
def run():
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    steps = []
    for factor in (2, 3):
        steps.append(lambda t, by=factor: t * by)
    with torch.cuda.stream(side):
        for step in steps:
            y = step(x)
    {join}
    return y.sum()
""",
    ),
    "match": (
        (3, 10),
        """\
def run(request):
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        match request:
            case {{"op": "scale", "by": int(by)}} if by > 1:
                y = x * by
            case [first, *_] | (first, _):
                y = x + 1
            case torch.Size() | None:
                y = x - 1
            case _ as other:
                y = x * 2
    {join}
    return y.sum()
""",
    ),
    "walrus": (
        (3, 10),
        """\
def run():
    side, x = work()
    (current := torch.cuda.current_stream())
    side.wait_stream(current)
    with torch.cuda.stream(side):
        if (y := x * 2) is None:
            return x
    {join}
    return y.sum()
""",
    ),
    "async for": (
        (3, 10),
        """\
async def run(requests):
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    y = x
    async for request in requests:
        with torch.cuda.stream(side):
            y = x * 2
    else:
        pass
    {join}
    return y.sum()
""",
    ),
    "async comprehension": (
        (3, 10),
        """\
async def run(requests):
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        ys = [x * 2 async for request in requests]
    {join}
    return ys[0].sum()
""",
    ),
    "with in parentheses": (
        (3, 10),
        """\
def run():
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    with (
        torch.no_grad(),
        torch.cuda.stream(side),
    ):
        y = x * 2
    {join}
    return y.sum()
""",
    ),
    "except*": (
        (3, 11),
        """\
def run():
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(side):
            y = x * 2
    except* (RuntimeError, ValueError) as group:
        y = x
    {join}
    return y.sum()
""",
    ),
    "starred index": (
        (3, 11),
        """\
def run(*rest):
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x[*rest] * 2
    {join}
    return y.sum()
""",
    ),
    "generic function and class": (
        (3, 12),
        """\
type Pair[T] = tuple[T, T]

class Held[T: torch.Tensor]:
    def __init__(self, value: T):
        self.value = value

def scaled[T: (torch.Tensor, float), *Ts, **P](held: Held[T]) -> T:
    return held.value * 2

def run():
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = scaled(Held(x))
    {join}
    return y.sum()
""",
    ),
    "nested f-string": (
        (3, 12),
        """\
def run():
    side, x = work()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    print(f"{{"queued on"}} {{side!r:>{{len("side")}}}}")
    {join}
    return y.sum()
""",
    ),
}
JOIN = "torch.cuda.current_stream().wait_stream(side)"


def findings(root: Path, text: str) -> list[str]:
    report = engine.analyze(root, written(root, {"run.py": text}), engine.Settings())
    assert not report.errors
    strong = [one for one in leading(report.findings) if one.code < "SL9"]
    return sorted({one.code for one in strong})


@pytest.mark.parametrize("form", FORMS)
def test_what_stands_in_it_is_followed(tmp_path: Path, form: str) -> None:
    since, text = FORMS[form]
    if sys.version_info < since:
        pytest.skip(f"Python {since[0]}.{since[1]} reads it first")
    assert findings(tmp_path, HEAD + text.format(join="pass")) == ["SL101"]
    assert findings(tmp_path, HEAD + text.format(join=JOIN)) == []


@pytest.mark.parametrize("form", FORMS)
def test_what_this_python_cannot_read_is_an_error_of_the_file(tmp_path: Path, form: str) -> None:
    since, text = FORMS[form]
    if sys.version_info >= since:
        pytest.skip("this Python reads it")
    newer = HEAD + text.format(join="pass")
    older = HEAD + FORMS["walrus"][1].format(join="pass")
    files = written(tmp_path, {"newer.py": newer, "older.py": older})
    report = engine.analyze(tmp_path, files, engine.Settings())
    assert [error.path for error in report.errors] == ["newer.py"]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"(read as Python {version})" in report.errors[0].message
    assert {one.primary.path for one in report.findings} == {"older.py"}


def test_syntax_of_no_python_is_an_error_of_the_file(tmp_path: Path) -> None:
    """The same error, whatever the Python: the other files are analyzed."""
    files = written(tmp_path, {"newer.py": HEAD + "def run():\n    side ??= work()\n"})
    report = engine.analyze(tmp_path, files, engine.Settings())
    (error,) = report.errors
    assert (error.path, error.line) == ("newer.py", 8)
    assert error.message.startswith("syntax error: ")


@pytest.mark.parametrize("form", FORMS)
def test_the_forms_are_python(form: str) -> None:
    since, text = FORMS[form]
    if sys.version_info >= since:
        ast.parse(HEAD + text.format(join=JOIN))
