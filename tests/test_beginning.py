"""What is read of functions, modules and classes that are too large or too deep to be read whole."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from streamlint import ir
from streamlint.lower import body, index_module, units
from streamlint.lower.beginning import beginning
from streamlint.lower.text import SourceText
from streamlint.run import engine

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.finding import Report

NESTED = '''\
def f(x, s):
    """Words."""
    with s:
        try:
            a = """
    one = 1
"""; b = 2
            if x:
                pass
            elif s:
                for i in x:
                    while i:
                        try:
                            c = 3
                        except ValueError:
                            d = 4
                        else:
                            e = 5
            else:
                @x
                def g():
                    return 1
        finally:
            match x:
                case 1:
                    h = 6
                case _:
                    async_ = [
                        7,
                    ]
    return x
'''


@pytest.mark.parametrize("indent", ["", "    ", "\t"])
def test_every_beginning_parses_and_leaves_places_as_they_are(indent: str) -> None:
    lines = [
        indent + line if line and line not in ("    one = 1", '"""; b = 2') else line
        for line in NESTED.split("\n")
    ]
    text = "\n".join((*(["class C:"] if indent else []), *lines))
    source = SourceText.of(text, "m.py", "m", False)
    segment = source.segment(2 if indent else 1, len(source.lines))
    seen: set[str] = set()
    for size in range(30, len(segment.text)):
        try:
            part = beginning(segment, size)
        except ir.LoweringError:
            assert size < 60
            continue
        ast.parse(part)
        kept = part.rpartition("return")[0]
        assert segment.text.startswith(kept)
        assert len(kept) <= size + 60, "a line that begins within the limit is the last one"
        seen.add(part)
    assert len(seen) > 12


SIDE = "import torch\nside = torch.cuda.Stream()\n"
RACE = "    with torch.cuda.stream(side):\n        y{0} = x * 2\n    z{0} = y{0} + 1\n"


def checked(folder: Path, text: str) -> Report:
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    return engine.analyze(folder, [path], engine.Settings())


def limited(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in (units, body):
        monkeypatch.setattr(module, "MAX_TEXT", size)


def test_the_first_mistakes_of_a_large_function_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"{SIDE}def f(x: torch.Tensor):\n" + "".join(RACE.format(number) for number in range(40))
    whole = checked(tmp_path, text)
    limited(monkeypatch, 800)
    report = checked(tmp_path, text)
    places = {finding.primary for finding in whole.findings}
    found = {finding.primary for finding in report.findings}
    assert found < places
    assert len(found) > 10
    assert max(place.line for place in found) < min(place.line for place in places - found)
    assert not any(finding.confidence.value == "certain" for finding in report.findings)
    (left,) = report.statistics.left_out
    assert (left.function, left.what.partition(" (")[0]) == ("f", "too large to be read")


def test_a_large_function_is_not_followed_from_its_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes behind its beginning may wait: nothing is said of what its callers do afterwards."""
    large = "def table(x):\n    a = x\n    b = [" + "x, " * 400 + "]\n    side.synchronize()\n    return b\n"
    caller = "def f(x: torch.Tensor):\n" + RACE.format("").replace("    z", "    table(x)\n    z")
    limited(monkeypatch, 800)
    report = checked(tmp_path, SIDE + large + caller)
    assert {(f.function, f.confidence.value) for f in report.findings if f.primary.line == 12} <= {
        ("f", "possible")
    }
    assert report.errors == ()
    assert {left.function for left in report.statistics.left_out} >= {"f"}


DEEP = "side" + ".query()" * 700


def test_what_is_too_deep_in_a_module_leaves_its_other_statements(tmp_path: Path) -> None:
    main = "x = torch.ones(3, device='cuda')\n" + RACE.format("").replace("\n    ", "\n")[4:]
    report = checked(tmp_path, f"{SIDE}deep = {DEEP}\n{main}")
    assert [(f.code, f.confidence.value) for f in report.findings] == [("SL101", "likely")] * len(
        report.findings
    )
    assert report.findings
    (left,) = report.statistics.left_out
    assert (left.function, left.what) == ("program", "nested too deeply (1402 levels)")


def test_what_is_too_deep_in_a_class_is_named(tmp_path: Path) -> None:
    cls = f"class A:\n    deep = {DEEP}\n    own: int = 3\n    def f(self, x: torch.Tensor):\n"
    report = checked(
        tmp_path,
        SIDE + cls + RACE.format("").replace("    ", "        ").replace("            y", "            y"),
    )
    assert {f.function for f in report.findings} == {"A.f"}
    (left,) = report.statistics.left_out
    assert (left.function, left.what) == ("A", "nested too deeply (1402 levels)")


def test_a_deep_statement_stands_alone() -> None:
    module = index_module(f"a = 1; b = 2\nc = {DEEP}\nd = 4\n", "m.py", "m", False)
    kinds = [type(statement) for statement in module.load_body()]
    assert kinds == [ir.Assign, ir.Assign, ir.Unread, ir.Assign]
    module = index_module(f"a = 1; c = {DEEP}\nd = 4\n", "m.py", "m", False)
    assert [type(statement) for statement in module.load_body()] == [ir.Unread, ir.Assign]
