"""The analyzer against the fixtures, one case a file, and the conventions that the fixtures follow."""

from __future__ import annotations

import ast
import keyword
import re
from typing import TYPE_CHECKING

import pytest

from streamlint.finding import leading
from streamlint.judging.words import Source
from streamlint.run import engine
from tests.expectations import (
    FIXTURES,
    Kind,
    compare,
    explain,
    fixture_files,
    functions,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlint.finding import Report

ROOT = FIXTURES.parent
FILES = fixture_files()
every_file = pytest.mark.parametrize(
    "file", FILES, ids=[file.relative_to(FIXTURES).as_posix() for file in FILES]
)


@every_file
def test_findings_are_the_expected_ones(file: Path, analyzed: Callable[[Path], Report], kept: Path) -> None:
    source = file.read_text(encoding="utf-8")
    path = file.relative_to(ROOT).as_posix()
    report = analyzed(file)
    assert not report.errors
    again = engine.analyze(ROOT, [file], engine.Settings(evidence=False), cache=kept)
    assert again == report, "what is kept is what was found"
    shown = leading(report.findings)
    findings = [one for one in shown if one.primary.path == path]
    elsewhere = [str(one.primary) for one in shown if one.primary.path != path]
    assert not elsewhere
    mismatches = compare(parse(source), findings)
    if mismatches:
        pytest.fail(explain(path, source, mismatches, findings), pytrace=False)


_OURS = re.compile(r"#\d|@\d|\b(object|buffer|stream|event)\d|\b\d+:[a-zA-Z_]|<locals>")
_STREAMS = re.compile(r" on (.+) while (?:[A-Za-z]+ )?(.+?) may still ")
_WAITING = re.compile(r"(`[^`]+`|the [a-z]+ stream) wait for (`[^`]+`|the [a-z]+ stream)")
_NAMELESS = re.compile(r"\bthe (?:buffer|event|other stream)\b|\ba stream (?:while|may still)")
_NOT_IN_THE_TEXT = {"each", "operator", "parameters", *keyword.kwlist}
"""Words of keys: an element of a loop, what was imported by its last name only, and what a module owns, for
which a program that gets at it by ``state_dict()`` has no other word."""


@every_file
def test_messages_can_be_understood(file: Path, analyzed: Callable[[Path], Report]) -> None:
    """One name stands for one thing, names are the program's, and the place is something that is done."""
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    for one in leading(analyzed(file).findings):
        texts = [one.message, one.help, *(note.message for note in one.related)]
        for first, second in (*_STREAMS.findall(one.message), *_WAITING.findall(one.help)):
            assert first != second, texts
        ours = (found.group() for text in texts for found in _OURS.finditer(text))
        assert not any(word not in source for word in ours), texts
        assert not any(_NAMELESS.search(text) for text in texts), texts
        for name in re.findall(r"`([^`]+)`", one.message):
            words = set(re.findall(r"[^\W\d]\w*", name)) - _NOT_IN_THE_TEXT
            assert not [word for word in words if word not in source], one.message
        place = lines[one.primary.line - 1].lstrip()
        assert not place.startswith(("def ", "async def ", "class ")), f"{one.primary}: {place}"


_PROPOSED = {"pin_memory=True", "cudaMallocHost", "threading", "copy_"}
"""What help tells to use instead, beside calls."""
_UNWRITTEN = {
    "torch/sl101_layers.py": {"linear"},
}
"""Names in messages that their fixtures do not write. This may only shrink."""


@every_file
def test_names_in_messages_are_expressions_of_the_source(
    file: Path, analyzed: Callable[[Path], Report]
) -> None:
    """What stands in backticks can be found in the file; calls that the help proposes are code to write."""
    source = Source([file.read_text(encoding="utf-8")])
    unwritten = {
        name
        for one in leading(analyzed(file).findings)
        for text in (one.message, one.label, one.help, *(note.message for note in one.related))
        for name in re.findall(r"`([^`]+)`", text)
        if not source.has(name) and not (text == one.help and (name.endswith(")") or name in _PROPOSED))
    }
    assert unwritten == _UNWRITTEN.get(file.relative_to(FIXTURES).as_posix(), set())


@every_file
def test_drivers_take_no_arguments(file: Path) -> None:
    tree = functions(file.read_text(encoding="utf-8"))
    drivers = {name: node for name, node in tree.items() if name.endswith(("_bad", "_ok"))}
    assert drivers
    for name, node in drivers.items():
        assert ast.unparse(node.args) == "", f"{name} takes arguments"
        assert isinstance(node.body[-1], ast.Return), f"{name} returns nothing that could be compared"


@every_file
def test_every_bad_function_has_a_right_twin(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    names = functions(source)
    stems = {name.removesuffix("_ok") for name in names if name.endswith("_ok")}
    for name in names:
        if name.endswith("_bad"):
            stem = name.removesuffix("_bad")
            assert any(one.startswith(stem) or stem.startswith(one) for one in stems), f"{name} has no twin"
    assert ast.get_docstring(ast.parse(source)), "a fixture says which law it shows"


@every_file
def test_right_functions_expect_nothing(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    wrong = [
        one.line for one in parse(source) if one.kind in (Kind.ERROR, Kind.TODO_ERROR) and one.code < "SL9"
    ]
    for name, node in functions(source).items():
        if name.endswith("_ok"):
            inside = [line for line in wrong if node.lineno <= line <= (node.end_lineno or node.lineno)]
            assert not inside, f"{name} is right, but lines {inside} expect a hazard"
