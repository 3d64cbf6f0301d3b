"""Names that a program chose itself tell nothing, nor does the order of methods: findings stay the same."""

from __future__ import annotations

import ast
import os
import zlib
from typing import TYPE_CHECKING

import pytest

from streamlint.run import engine
from tests.expectations import FIXTURES, fixture_files
from tests.renaming import renamed
from tests.reordering import reordered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from streamlint.finding import Report

ALL = "STREAMLINT_RENAME_ALL"
"""Set in the environment, it takes all fixtures; otherwise each fifth."""

FILES = {file.relative_to(FIXTURES).as_posix(): file for file in fixture_files()}
CHOSEN = [name for number, name in enumerate(FILES) if ALL in os.environ or number % 5 == 0]


def found(report: Report) -> list[tuple[str, int, str]]:
    """Code, line and confidence of each finding."""
    assert not report.errors
    return sorted((one.code, one.primary.line, one.confidence.name) for one in report.findings)


NAMES_TELL = {
    "torch/sl101_called_like_numbers.py",
    "torch/sl101_replaced_data.py",
    "torch/sl101_set_by_others.py",
}
"""What is about a guess by names (``docs/limits.md``), what gives the name of a member of PyTorch's layers,
``weight``, to one of its own, and where a text has a part of one: ``setattr(store, f"row_{name}", made)``."""
ORDER_TELLS = {"torch/sl101_taken_from_others.py", "torch/sl101_begun_by_calls.py"}
"""Where several methods fill aside what another one hands out: which come first (``docs/limits.md``)."""


@pytest.mark.parametrize("name", [name for name in CHOSEN if name not in NAMES_TELL | ORDER_TELLS])
def test_other_names_in_another_order_give_the_same_findings(
    name: str, analyzed: Callable[[Path], Report]
) -> None:
    file = FILES[name]
    source = file.read_text(encoding="utf-8")
    seed = zlib.crc32(name.encode())
    moved, was = reordered(source, seed)
    other = {file: renamed(moved, seed).encode()}
    after = found(engine.analyze(FIXTURES.parent, [file], engine.Settings(evidence=False), overlay=other))
    assert sorted((code, was[line - 1], sure) for code, line, sure in after) == found(analyzed(file))


PROGRAM = """\
import torch

class Part:
    def __init__(self, stream, size):
        self.stream = stream
        self._size = size

    def run(self, x):
        with torch.cuda.stream(self.stream):
            return x * self._size

def drive():
    part = Part(torch.cuda.Stream(), size=2)
    return part.run(torch.ones(8, device="cuda")).stream
"""


def test_only_names_of_the_program_change() -> None:
    other = renamed(PROGRAM, 1)
    assert other.count("\n") == PROGRAM.count("\n"), "lines stay"
    tree = ast.parse(other)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {"Part", "drive", "part", "self", "x"}.isdisjoint(names)
    assert {"torch", "size"} <= names, "a library, and a parameter that is given by its name"
    assert {"cuda", "stream", "Stream", "ones"} <= attributes, "attributes of the library"
    assert "_size" not in attributes
    assert other == renamed(PROGRAM, 1) != renamed(PROGRAM, 2)


CLASSES = """\
class Part:
    size = 2

    def __init__(self):
        self.lanes = []

    @property
    def first(self):
        return self.lanes[0]

    def run(self, x):
        return x * self.size


class Kept:
    def both(self): ...
    def before(self): ...

    alias = both
"""


def test_only_the_methods_of_classes_that_do_not_depend_on_their_order_move() -> None:
    orders = set()
    for seed in range(20):
        moved, was = reordered(CLASSES, seed)
        lines = moved.splitlines()
        assert [CLASSES.splitlines()[number - 1] for number in was] == lines
        assert lines[13:] == CLASSES.splitlines()[13:], "a method is used before the class is made"
        assert lines[lines.index("    @property") + 1] == "    def first(self):"
        assert lines[1] == "    size = 2"
        orders.add(moved)
    assert len(orders) == 6
